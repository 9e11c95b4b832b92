// The official clients against the agent: node clients.mjs AGENT
//
// These are the previous SDK (@modelcontextprotocol/sdk), the current one (@modelcontextprotocol/client), which
// negotiates in three ways, and the command line of the inspector, each on standard input and output and over HTTP.
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import * as v1 from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport as TransportV1 } from '@modelcontextprotocol/sdk/client/stdio.js';
import { StreamableHTTPClientTransport as HttpV1 } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import * as v2 from '@modelcontextprotocol/client';
import { StdioClientTransport as TransportV2 } from '@modelcontextprotocol/client/stdio';
import { startServer } from './server.mjs';

const agent = process.argv[2];
const directory = mkdtempSync(join(tmpdir(), 'mcp-'));
process.on('exit', () => rmSync(directory, { recursive: true, force: true }));
const names = ['execute_command', 'read_file', 'write_file', 'edit_file', 'list_directory', 'grep', 'directory_tree'];
const info = { name: 'test', version: '1' };

function clientV1(args) {
  const transport = new TransportV1({ command: agent, args, cwd: directory });
  return { client: new v1.Client(info), transport };
}

function clientV2(mode, args) {
  const transport = new TransportV2({ command: agent, args, cwd: directory });
  return { client: new v2.Client(info, { versionNegotiation: { mode } }), transport };
}

function httpClientV1(server) {
  const transport = new HttpV1(new URL(server.url), { requestInit: { headers: server.headers } });
  return { client: new v1.Client(info), transport };
}

function httpClientV2(mode, server) {
  const transport = new v2.StreamableHTTPClientTransport(new URL(server.url), { requestInit: { headers: server.headers } });
  return { client: new v2.Client(info, { versionNegotiation: { mode } }), transport };
}

// The checks that all clients share.
async function use({ client, transport }, { structured = false, era = 'legacy' } = {}) {
  const errors = [];
  client.onerror = (error) => errors.push(error);
  await client.connect(transport);
  // The previous SDK takes a schema before the options.
  const call = (name, args, options) =>
    client.callTool({ name, arguments: args }, ...(client instanceof v1.Client ? [undefined] : []), options);
  const command = (text, options) => call('execute_command', { command: text }, options);

  assert.equal(client.getServerVersion().name, 'sandbox-agent');
  assert.deepEqual(client.getServerCapabilities(), { tools: {} });
  assert.match(client.getInstructions(), /execute_command/);
  const { tools, nextCursor } = await client.listTools();
  assert.deepEqual(tools.map((tool) => tool.name), names);
  assert.equal(nextCursor, undefined);
  assert.equal('outputSchema' in tools[0] && tools[0].outputSchema !== undefined, structured);
  if (era === 'legacy') await client.ping();
  if (client.getProtocolEra) assert.equal(client.getProtocolEra(), era);

  const failed = await command('echo out; echo err >&2; exit 3');
  assert.deepEqual(failed.content, [{ type: 'text', text: 'out\nSTDERR: err\n(exit code: 3)' }]);
  assert.equal(failed.isError, true);
  assert.equal(failed.structuredContent?.exitCode, structured ? 3 : undefined);
  const refused = await call('execute_command', {});
  assert.equal(refused.isError, true);
  await assert.rejects(call('no_such_tool', {}), (error) => error.code === -32602);

  // Calls at the same time, each with its own answer.
  const echoes = await Promise.all([...Array(24).keys()].map((i) => command(`echo ${i}`)));
  assert.deepEqual(echoes.map((echo) => echo.content[0].text), [...Array(24).keys()].map(String));

  await call('write_file', { path: 'f', content: 'é\n\u2028"' });
  assert.equal(readFileSync(join(directory, 'f'), 'utf8'), 'é\n\u2028"');
  const read = await call('read_file', { path: 'f' });
  assert.equal(read.content[0].text, 'é\n\u2028"');

  // A time limit that each progress report restarts. The reports are 0.25 s apart.
  const reports = [];
  const slow = await command('for i in 1 2 3 4 5 6 7; do echo $i; sleep 0.5; done', {
    onprogress: (progress) => reports.push(progress), timeout: 3000, resetTimeoutOnProgress: true,
  });
  assert.equal(slow.content[0].text, '1\n2\n3\n4\n5\n6\n7');
  assert.ok(reports.length >= 2 && reports.every((r, i) => i === 0 || r.progress > reports[i - 1].progress));
  const messages = reports.map((report) => report.message).filter((message) => message !== undefined);
  assert.ok(messages.length > 0 && messages.every((message) => /^\d$/.test(message)));

  // After a cancel the process is gone, and the client still works.
  const controller = new AbortController();
  const cancelled = command('echo $$ >pid; exec sleep 60', { signal: controller.signal });
  const pid = await until(() => readFileSync(join(directory, 'pid'), 'utf8').trim());
  controller.abort();
  await assert.rejects(cancelled);
  await until(() => !isAlive(Number(pid)) || undefined);
  rmSync(join(directory, 'pid'));
  assert.equal((await command('echo after')).content[0].text, 'after');

  const server = transport.pid; // undefined over HTTP
  assert.ok(!server || isAlive(server));
  const start = Date.now();
  await client.close();
  assert.ok(!server || !isAlive(server), 'the server outlives its client');
  assert.ok(Date.now() - start < 1000, 'the end takes a second');
  // The client reports an error if it reads a progress report together with the answer (typescript-sdk, issue 2580).
  assert.deepEqual(errors.filter((error) => !error.message.includes('progress notification for an unknown token')), []);
}

let count = 0;

// Cancels one of two calls. The ids of its requests are those of other clients.
async function useCancel({ client, transport }) {
  await client.connect(transport);
  const call = (command, options) =>
    client.callTool({ name: 'execute_command', arguments: { command } }, ...(client instanceof v1.Client ? [undefined] : []), options);
  const name = `cancel-${++count}`;
  const kept = call(`mkfifo ${name}; cat ${name}`);
  const controller = new AbortController();
  const cancelled = call(`echo $$ >${name}-pid; exec sleep 60`, { signal: controller.signal });
  const pid = await until(() => readFileSync(join(directory, `${name}-pid`), 'utf8').trim());
  controller.abort();
  await assert.rejects(cancelled);
  await until(() => !isAlive(Number(pid)) || undefined);
  await call(`echo ${name} >${name}`);
  assert.equal((await kept).content[0].text, name);
  await client.close();
}

function isAlive(pid) {
  try {
    process.kill(pid, 0);
    return !/^State:\s+Z/m.test(readFileSync(`/proc/${pid}/status`, 'utf8'));
  } catch {
    return false;
  }
}

async function until(read) {
  for (const end = Date.now() + 20000; Date.now() < end; await new Promise((done) => setTimeout(done, 5))) {
    try {
      const value = read();
      if (value) return value;
    } catch {
      continue;
    }
  }
  throw new Error(`nothing: ${read}`);
}

async function inspect(server, ...args) {
  const run = promisify(execFile);
  const bin = new URL('node_modules/.bin/mcp-inspector', import.meta.url).pathname;
  return JSON.parse((await run(bin, ['--cli', ...server, ...args], { cwd: directory })).stdout);
}

async function useInspector(server) {
  assert.deepEqual((await inspect(server, '--method', 'tools/list')).tools.map((tool) => tool.name), names);
  const answer = await inspect(server, '--method', 'tools/call', '--tool-name', 'execute_command', '--tool-arg', 'command=echo hi');
  assert.equal(answer.content[0].text, 'hi');
}

async function test(name, run) {
  const start = Date.now();
  await run();
  console.log(`ok    ${name.padEnd(50)} ${String(Date.now() - start).padStart(6)} ms`);
}

await test('sdk 1', () => use(clientV1(['--mcp'])));
await test('sdk 1, structured', () => use(clientV1(['--mcp', '--structured']), { structured: true }));
await test('sdk 1, --mcp=2024-11-05', async () => {
  const { client, transport } = clientV1(['--mcp=2024-11-05']);
  await client.connect(transport);
  assert.equal((await client.listTools()).tools.length, names.length);
  await client.close();
});
await test('sdk 2, initialize', () => use(clientV2('legacy', ['--mcp'])));
await test('sdk 2, probing', () => use(clientV2('auto', ['--mcp']), { era: 'modern' }));
await test('sdk 2, probing, structured', () =>
  use(clientV2('auto', ['--mcp', '--structured']), { structured: true, era: 'modern' }));
await test('sdk 2, probing a server of before', () => use(clientV2('auto', ['--mcp=2025-11-25'])));
await test('sdk 2, pinned to 2026-07-28', () =>
  use(clientV2({ pin: '2026-07-28' }, ['--mcp=2026-07-28']), { era: 'modern' }));
await test('inspector', () => useInspector([agent, '--mcp']));

const server = await startServer(agent, ['--mcp'], { cwd: directory, key: 'a-key-of-this-test' });
await test('sdk 1, http', () => use(httpClientV1(server)));
await test('sdk 2, http, initialize', () => use(httpClientV2('legacy', server)));
await test('sdk 2, http, probing', () => use(httpClientV2('auto', server), { era: 'modern' }));
await test('sdk 2, http, pinned to 2026-07-28', () => use(httpClientV2({ pin: '2026-07-28' }, server), { era: 'modern' }));
await test('inspector, http', () =>
  useInspector([server.url, '--transport', 'http', '--header', `Authorization: ${server.headers.Authorization}`]));
// Clients whose ids collide, at the same time.
await test('all, http, at the same time', () =>
  Promise.all([useCancel(httpClientV1(server)), useCancel(httpClientV1(server)), useCancel(httpClientV2('legacy', server)),
    useCancel(httpClientV2('auto', server))]));
await server.stop();
const former = await startServer(agent, ['--mcp=2025-06-18', '--structured'], { cwd: directory });
await test('sdk 1, http, structured, --mcp=2025-06-18', () => use(httpClientV1(former), { structured: true }));
await test('sdk 2, http, probing a server of before', () => use(httpClientV2('auto', former), { structured: true }));
await former.stop();

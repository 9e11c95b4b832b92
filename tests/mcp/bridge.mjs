// Streamable HTTP for a server on standard input and output, as far as the conformance suite needs it: the suite knows
// no other transport.
//
//   const bridge = await startBridge('build/agent', ['--mcp']);
//   … bridge.url …
//   await bridge.stop();
//
// All clients share one process, so the bridge replaces ids and progress tokens by its own.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createServer } from 'node:http';
import { createInterface } from 'node:readline';

const statuses = { '-32700': 400, '-32600': 400, '-32601': 404, '-32602': 400, '-32022': 400 };
const meta = 'io.modelcontextprotocol/protocolVersion';

export async function startBridge(program, args) {
  const server = spawn(program, args, { stdio: ['pipe', 'pipe', 'inherit'] });
  const waiting = new Map(); // the bridge's id -> { id, token, progress(), answer() }
  let number = 0;

  createInterface({ input: server.stdout, crlfDelay: Infinity }).on('line', (line) => {
    const message = JSON.parse(line);
    if (message.method === 'notifications/progress') {
      const request = waiting.get(message.params.progressToken);
      if (!request) throw new Error(`progress of no request: ${line}`);
      request.progress({ ...message, params: { ...message.params, progressToken: request.token } });
      return;
    }
    const request = waiting.get(message.id);
    if (!request) throw new Error(`an answer to no request: ${line}`);
    waiting.delete(message.id);
    request.answer({ ...message, id: request.id });
  });

  const send = (message) => server.stdin.write(`${JSON.stringify(message)}\n`);
  const http = createServer(async (request, response) => {
    if (request.method !== 'POST') return reply(response, 405);
    const message = await read(request);
    if (message === undefined) return reply(response, 400);
    if (!('id' in message) || !message.method) {
      send(message);
      return reply(response, 202);
    }
    const mismatch = headerMismatch(request.headers, message);
    if (mismatch) return reply(response, 400, error(message.id, -32020, mismatch));
    const id = `bridge-${++number}`;
    const token = message.params?._meta?.progressToken;
    const streams = token !== undefined && /text\/event-stream/.test(request.headers.accept);
    const event = (one) => response.write(`event: message\ndata: ${JSON.stringify(one)}\n\n`);
    if (streams) response.writeHead(200, { 'content-type': 'text/event-stream' });
    waiting.set(id, {
      id: message.id,
      token,
      progress: (one) => streams && event(one),
      answer: (one) => {
        if (streams) event(one), response.end();
        else reply(response, (isModern(message) && statuses[one.error?.code]) || 200, one);
      },
    });
    // A request that its client drops is cancelled.
    response.on('close', () => {
      if (waiting.has(id)) send({ jsonrpc: '2.0', method: 'notifications/cancelled', params: { requestId: id } });
    });
    const forwarded = { ...message, id };
    if (token !== undefined)
      forwarded.params = { ...message.params, _meta: { ...message.params._meta, progressToken: id } };
    send(forwarded);
  });
  http.listen(0, '127.0.0.1');
  await once(http, 'listening');
  return {
    url: `http://127.0.0.1:${http.address().port}/mcp`,
    // Ends the input of the server and returns its exit code.
    async stop() {
      http.closeAllConnections();
      http.close();
      const exit = once(server, 'exit');
      server.stdin.end();
      return (await exit)[0];
    },
  };
}

async function read(request) {
  let text = '';
  for await (const piece of request.setEncoding('utf8')) text += piece;
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function reply(response, status, message) {
  response.writeHead(status, message ? { 'content-type': 'application/json' } : {});
  response.end(message ? JSON.stringify(message) : undefined);
}

function error(id, code, message) {
  return { jsonrpc: '2.0', id, error: { code, message } };
}

function isModern(message) {
  return message.method === 'server/discover' || message.params?._meta?.[meta] !== undefined;
}

// The headers repeat parts of the message.
function headerMismatch(headers, message) {
  const version = message.params?._meta?.[meta];
  if (typeof version !== 'string') return null;
  if (headers['mcp-protocol-version'] !== version) return 'Header mismatch: MCP-Protocol-Version';
  if (headers['mcp-method'] !== message.method) return 'Header mismatch: Mcp-Method';
  if (message.method === 'tools/call' && headers['mcp-name'] !== message.params.name) return 'Header mismatch: Mcp-Name';
  return null;
}

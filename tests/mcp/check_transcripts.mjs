// Checks the output of an agent that the tests have recorded (tests/support/mcp_client.h):
//
//   node check_transcripts.mjs DIRECTORY [SCHEMAS]
//
// Each line is checked against the protocol version that it belongs to: with SCHEMAS, a directory of
// <version>/schema.json, against those; else against the types of the official SDK. Other rules are that each request
// is answered at most once, and with its id; that progress has a token that was given, increases, and ends with the
// answer; and that the members of one era are not in the results of the other.
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { Ajv } from 'ajv';
import { Ajv2020 } from 'ajv/dist/2020.js';
import formats from 'ajv-formats';
import * as sdk from '@modelcontextprotocol/core';

const [directory, schemas] = process.argv.slice(2);
const modern = '2026-07-28';
const newestLegacy = '2025-11-25';
const versions = ['2024-11-05', '2025-03-26', '2025-06-18', newestLegacy, modern];
const results = {
  initialize: 'InitializeResult',
  ping: 'EmptyResult',
  'tools/list': 'ListToolsResult',
  'tools/call': 'CallToolResult',
  'prompts/list': 'ListPromptsResult',
  'resources/list': 'ListResourcesResult',
  'resources/templates/list': 'ListResourceTemplatesResult',
  'server/discover': 'DiscoverResult',
};
const counts = {};
let at = '';

function fail(why, line) {
  console.error(`${at}: ${why}\n  ${line.slice(0, 2000)}`);
  process.exit(1);
}

// --- schemas ---

const validators = new Map();
function validator(version, name) {
  if (!validators.has(version)) {
    const schema = JSON.parse(readFileSync(join(schemas, version, 'schema.json')));
    const ajv = new (schema.$schema.includes('2020-12') ? Ajv2020 : Ajv)({ strict: false, validateFormats: true });
    formats.default(ajv);
    // Its regular expression recurses for each character of an image.
    ajv.addFormat('byte', (text) => Buffer.from(text, 'base64').toString('base64') === text);
    ajv.addSchema(schema, 'mcp');
    const section = schema.$defs ? '$defs' : 'definitions';
    validators.set(version, (definition) =>
      schema[section][definition] && ((value) => {
        const validate = ajv.getSchema(`mcp#/${section}/${definition}`);
        return validate(value) ? null : ajv.errorsText(validate.errors);
      }));
  }
  return validators.get(version)(name);
}

// The names of a definition in different versions.
function expect(version, names, value, line) {
  if (!schemas) {
    const schema = names.map((name) => sdk[`${name}Schema`]).find((found) => found);
    // It rejects integers that JavaScript cannot represent.
    const { id } = value;
    const parsed = schema?.safeParse(Math.abs(id) > Number.MAX_SAFE_INTEGER ? { ...value, id: 0 } : value);
    if (parsed && !parsed.success) fail(`${version} ${names[0]}: ${parsed.error.message}`, line);
    return;
  }
  const check = names.map((name) => validator(version, name)).find((found) => found);
  const errors = check ? check(value) : `no definition of ${names}`;
  if (errors) fail(`${version} ${names[0]}: ${errors}`, line);
}

// --- one line ---

class Session {
  negotiated = newestLegacy;
  requests = []; // that are not answered yet: { id, method, version, token, asked }
  unreadable = 0; // lines that were sent and cannot be parsed; their answers may have an id
  progress = new Map(); // token -> seconds

  sent(line) {
    let messages;
    try {
      messages = [JSON.parse(line.replace(/^\uFEFF/, ''))].flat();
    } catch {
      this.unreadable++;
      return;
    }
    for (const message of messages) {
      if (typeof message?.method !== 'string' || !['string', 'number'].includes(typeof message.id)) continue;
      const meta = message.params?._meta ?? {};
      const isModern = message.method === 'server/discover' ||
        ['protocolVersion', 'clientCapabilities', 'clientInfo'].some((n) => `io.modelcontextprotocol/${n}` in meta);
      this.requests.push({
        id: JSON.stringify(message.id), method: message.method, isModern, token: meta.progressToken,
        version: isModern ? modern : null, asked: message.params?.protocolVersion,
      });
    }
  }

  received(line) {
    const message = JSON.parse(line);
    if (!Array.isArray(message)) return this.take(message, line);
    if (this.negotiated !== '2025-03-26' || message.length === 0) fail('an array', line);
    if (schemas) expect(this.negotiated, ['JSONRPCMessage'], message.filter((one) => 'id' in one), line);
    for (const one of message) this.take(one, line);
  }

  take(message, line) {
    if (message.jsonrpc !== '2.0') fail('no JSON-RPC 2.0', line);
    if (message.method) this.takeNotification(message, line);
    else if (!('id' in message)) this.takeStrayError(message, line);
    else this.takeAnswer(message, line);
  }

  // The first request with this id: tests use some ids twice, and a cancelled request is not answered.
  takeAnswer(message, line) {
    const id = JSON.stringify(message.id);
    const index = this.requests.findIndex((request) => request.id === id);
    if (index < 0 && message.error?.code === -32700 && this.unreadable-- > 0) {
      expect(this.negotiated, ['JSONRPCErrorResponse', 'JSONRPCError'], message, line);
      return;
    }
    if (index < 0) fail('an answer that nobody waits for', line);
    const [request] = this.requests.splice(index, 1);
    if (request.token !== undefined) this.progress.set(request.token, Infinity);
    if (request.method === 'initialize' && message.result) this.negotiated = message.result.protocolVersion;
    const version = request.isModern ? modern : this.negotiated;
    expect(version, ['JSONRPCMessage'], message, line);
    if (message.error) {
      counts[`${version} error ${message.error.code}`] = (counts[`${version} error ${message.error.code}`] ?? 0) + 1;
      expect(version, ['JSONRPCErrorResponse', 'JSONRPCError'], message, line);
      if (message.error.code === -32022) expect(modern, ['UnsupportedProtocolVersionError'], message, line);
      return;
    }
    counts[`${version} ${request.method}`] = (counts[`${version} ${request.method}`] ?? 0) + 1;
    if (!results[request.method]) fail(`a result of ${request.method}`, line);
    expect(version, [results[request.method]], message.result, line);
    for (const member of ['resultType', '_meta'])
      if (member in message.result !== (version === modern)) fail(`${member} in ${version}`, line);
    for (const member of ['ttlMs', 'cacheScope'])
      if (member in message.result !== (version === modern && request.method !== 'tools/call'))
        fail(`${member} in ${version}`, line);
    if (message.result.content && message.result.content.length !== 1) fail('not one block of content', line);
  }

  // Only the two newest schemas have errors without an id; no schema has a null id.
  takeStrayError(message, line) {
    expect(newestLegacy, ['JSONRPCErrorResponse'], message, line);
    if (![-32700, -32600].includes(message.error.code)) fail('an error without an id', line);
    counts['errors without id'] = (counts['errors without id'] ?? 0) + 1;
  }

  takeNotification(message, line) {
    if (message.method !== 'notifications/progress' || 'id' in message) fail('nobody has asked for this', line);
    const { progressToken: token, progress } = message.params;
    const request = this.requests.find((one) => one.token === token);
    if (!request) fail('progress of no request', line);
    if (progress <= (this.progress.get(token) ?? 0)) fail('progress does not rise', line);
    this.progress.set(token, progress);
    const version = request.isModern ? modern : this.negotiated;
    expect(version, ['ProgressNotification'], message, line);
    if (version === '2024-11-05' && 'message' in message.params) fail('a message in 2024-11-05', line);
    counts[`${version} progress`] = (counts[`${version} progress`] ?? 0) + 1;
  }
}

let session = null;
let lines = 0;
const files = readdirSync(directory);
for (const file of files) {
  for (const [number, line] of readFileSync(join(directory, file), 'utf8').split('\n').entries()) {
    at = `${file}:${number + 1}`;
    if (line.startsWith('= ')) session = line === '= start' ? new Session() : null;
    else if (line.startsWith('> ')) session?.sent(line.slice(2));
    else if (line.startsWith('< ') && session) session.received(line.slice(2)), lines++;
  }
}
if (lines === 0) throw new Error(`no line in ${directory}`);
for (const name of Object.keys(counts).sort()) console.log(`${String(counts[name]).padStart(6)}  ${name}`);
const seen = versions.filter((version) => counts[`${version} tools/list`] && counts[`${version} tools/call`]);
if (seen.length !== versions.length) throw new Error(`not all versions were seen: ${seen}`);
console.log(`${lines} lines of ${files.length} clients are as ${schemas ? 'the schemas have' : 'the SDK has'} them`);

// Steps over HTTP with Node's fetch: node client.mjs URL, with the key in SANDBOX_HTTP_KEY.
import assert from 'node:assert/strict';

const url = process.argv[2];
const key = { Authorization: `Bearer ${process.env.SANDBOX_HTTP_KEY}` };

const ask = (method, path, body, headers = {}) =>
  fetch(url + path, { method, body, headers: { ...key, ...headers }, signal: AbortSignal.timeout(60000) });
const json = async (response) => (await response).json();
const put = (id, step, headers) => ask('PUT', `/steps/${encodeURIComponent(id)}`, JSON.stringify(step), headers);
const result = (id) => json(ask('GET', `/steps/${encodeURIComponent(id)}?wait=60`));

// Yields the JSON of each line.
async function* lines(response) {
  let rest = '';
  for await (const text of response.body.pipeThrough(new TextDecoderStream())) {
    const parts = (rest + text).split('\n');
    rest = parts.pop();
    for (const part of parts) if (part !== '') yield JSON.parse(part);
  }
  assert.equal(rest, '');
}

// A step with an unusual id, and its repetition.
const step = { command: 'sh', args: ['-c', 'echo a; echo b >&2; exit 3'] };
const response = await put('ü 1', step);
assert.equal(response.status, 202);
assert.equal((await response.json()).stepId, 'ü 1');
assert.equal((await result('ü 1')).exitCode, 3);
const repeated = await put('ü 1', step, { 'Sandbox-Instance': response.headers.get('sandbox-instance') });
assert.equal(repeated.status, 200);
assert.equal((await repeated.json()).exitCode, 3);
const conflict = await put('ü 1', {});
assert.deepEqual([conflict.status, (await conflict.json()).error], [409, 'conflict']);

// A body of unknown length is sent in chunks.
const pieces = new ReadableStream({
  start(controller) {
    for (const piece of ['{"command":"cat",', '"stdin":"', 'x'.repeat(1000000), '"}'])
      controller.enqueue(new TextEncoder().encode(piece));
    controller.close();
  },
});
const chunked = await fetch(`${url}/steps/2`, { method: 'PUT', body: pieces, headers: key, duplex: 'half' });
assert.equal(chunked.status, 202);
await chunked.text();
assert.equal((await result('2')).outputContent.trim().length, 1000000);

// Submit and follow: the first line is read while the command waits for the second request.
const followed = lines(await put('3', { command: 'sh', args: ['-c', 'echo first; sleep 60'] },
  { Accept: 'application/x-ndjson' }));
assert.equal((await followed.next()).value.kind, 'started');
assert.equal((await followed.next()).value.line, 'first');
assert.equal((await ask('POST', '/steps/3/cancel')).status, 202);
const rest = [];
for await (const line of followed) rest.push(line);
assert.equal(rest.at(-1).errorMessage, 'cancelled: by a cancel step');

// A stream that the client aborts, and continues.
await put('4', { command: 'seq', args: ['5000'] });
const abort = new AbortController();
const seqs = [];
try {
  for await (const line of lines(await fetch(`${url}/steps/4/events`, { headers: key, signal: abort.signal }))) {
    seqs.push(line.seq);
    if (seqs.length === 1000) abort.abort();
    if (seqs.length >= 1000) break;
  }
} catch (error) {
  assert.equal(error.name, 'AbortError');
}
for await (const line of lines(await ask('GET', `/steps/4/events?after=${seqs.length}`))) seqs.push(line.seq);
assert.deepEqual(seqs, [...Array(5002).keys()].map((n) => n + 1).concat([undefined]));

// Server-sent events.
const sent = await (await ask('GET', '/steps/4/events?after=5000', undefined, { Accept: 'text/event-stream' })).text();
assert.match(sent, /^retry: 1000\n\nid: 5001\ndata: {.*}\n\nid: 5002\ndata: {.*}\n\nevent: result\ndata: {.*}\n\n$/);

// Many requests at once.
const states = await Promise.all(Array.from({ length: 40 }, (_, i) => json(put(`many-${i}`, { command: 'true' }))));
assert.equal(new Set(states.map((state) => state.stepId)).size, 40);
for (const { stepId } of states) assert.equal((await result(stepId)).exitCode, 0);

// Errors have a body that says what to do.
const refused = await fetch(`${url}/steps`);
assert.equal(refused.status, 401);
assert.match((await refused.json()).message, /Bearer/);
const page = await fetch(`${url}/steps`, { headers: { ...key, Origin: 'http://example.org' } });
assert.equal(page.status, 403);
await page.text();
assert.equal((await ask('DELETE', '/steps/4')).status, 204);
assert.equal((await ask('GET', '/steps/4')).status, 410);

assert.equal((await put('end', { kind: 'shutdown' })).status, 202);

// Runs one command in the sandbox of a job, and exits with its code.
//
//   node client.ts REDIS_URL JOB COMMAND [ARGUMENT]...          needs redis (npm); Node.js 22.18, or tsc before
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { createClient } from 'redis';

const [url, job, command, ...args] = process.argv.slice(2);
const server = await createClient({ url }).connect(), reader = await server.duplicate().connect();
const events = `sandbox:${job}:events`, stepId = randomUUID();
let position = (await server.xRevRange(events, '+', '-', { COUNT: 1 }))?.[0]?.id ?? '0'; // other steps are before it
await server.lPush(`sandbox:${job}:in`, JSON.stringify(
  { schemaVersion: 1, stepId, command, args, flowControl: true, replyTo: stepId }));

let result: string | null = null, seq = 0, missing = 0;
const acknowledge = () => // events stay in the stream until they are acknowledged
  server.lPush(`sandbox:${job}:control`, JSON.stringify({ kind: 'read', stepId, seq }));
const readEvent = (data?: string) => { // null for another step's event, and for an entry of another program
  try {
    const event = JSON.parse(data ?? '');
    return event.stepId === stepId && event.seq > seq ? event : null;
  } catch {
    return null;
  }
};
const signs = setInterval(acknowledge, 2000); // while the output cannot be written
const end = Date.now() + 630_000; // the default timeoutSeconds, and 30 s
for (let entries: any[] = []; result === null || entries.length > 0;) { // events precede the result
  if (Date.now() > end) throw new Error('no answer: is there an agent for this job?');
  result ??= await server.rPop(`sandbox:${job}:results:${stepId}`);
  const read = await reader.xRead({ key: events, id: position },
    { COUNT: 1000, ...(result === null ? { BLOCK: 1000 } : {}) });
  entries = (read as any)?.[0]?.messages ?? [];
  for (const { id, message } of entries) {
    position = id;
    const event = readEvent(message.data);
    if (event === null) continue;
    missing += event.seq - seq - 1;
    seq = event.seq;
    if (event.kind !== 'stdout' && event.kind !== 'stderr') continue;
    const stream = process[event.kind as 'stdout'];
    if (!stream.write(event.line + '\n')) await once(stream, 'drain');
  }
  if (entries.length > 0) await acknowledge();
}
clearInterval(signs);
server.destroy();
reader.destroy();
const answer = JSON.parse(result);
if (answer.exitCode === -1) console.error(answer.errorMessage);
missing += Math.max(0, (answer.eventCount ?? 0) - seq); // those at the end
if (missing > 0) console.error(`events are missing: ${missing}`);
process.exitCode = missing > 0 ? 125 : answer.exitCode & 255;

// Runs one command in the sandbox of a job, and exits with its code.
//
//   node client.ts REDIS_URL JOB COMMAND [ARGUMENT]...          needs redis (npm); Node.js 22.18, or tsc before
import { randomUUID } from 'node:crypto';
import { createClient } from 'redis';

const [url, job, command, ...args] = process.argv.slice(2);
const server = await createClient({ url }).connect();
const events = `sandbox:${job}:events`;
let position = (await server.xRevRange(events, '+', '-', { COUNT: 1 }))?.[0]?.id ?? '0'; // of earlier steps
const stepId = randomUUID();
await server.lPush(`sandbox:${job}:in`, JSON.stringify({ schemaVersion: 1, stepId, command, args }));

const end = Date.now() + 630_000; // the default timeoutSeconds, and 30 s
let result: string | null = null;
while (result === null) { // a step's events are there before its result: so the last look comes after it
  if (Date.now() > end) throw new Error('no answer: is there an agent for this job?');
  result = await server.rPop(`sandbox:${job}:results`);
  if (result !== null && JSON.parse(result).stepId !== stepId) result = null; // of a client that was interrupted
  const read = await server.xRead({ key: events, id: position }, result === null ? { BLOCK: 1000 } : {});
  for (const { id, message } of (read as any)?.[0]?.messages ?? []) {
    const event = JSON.parse(message.data);
    if (event.stepId === stepId && (event.kind === 'stdout' || event.kind === 'stderr'))
      process[event.kind as 'stdout'].write(event.line + '\n');
    position = id;
  }
}
server.destroy();
const answer = JSON.parse(result);
if (answer.exitCode === -1) console.error(answer.errorMessage);
process.exitCode = answer.exitCode & 255;

import assert from 'node:assert/strict';
import { existsSync, writeFileSync } from 'node:fs';
import { before, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import * as sdk from 'sandbox-agent-redis';
import { failure, newFile, sandbox, server, until, work } from './support.js';

const job = 'run', events = `sandbox:${job}:events`, box = sandbox(job);
const wait = 'until [ -e "$GO" ]; do sleep 0.01; done';

before(() => server.agent(job, '--events-maxlen', '100', '--events-keep-bytes', '262144'));

test('a shell text returns its exit code, both streams and how it ended', async () => {
  const result = await box.run('echo out; echo err >&2; exit 7');
  assert.equal(result.exitCode, 7);
  assert.equal(result.stdout, 'out\n');
  assert.equal(result.stderr, 'err\n');
  assert.equal(result.end.cause, 'exited');
  assert.equal(result.missing, 0);
  assert.match(result.stepId, /^[0-9a-f-]{36}$/);
  assert(result.durationSeconds > 0);
});

test('a program gets its arguments without a shell, its directory, environment and standard input', async () => {
  const result = await box.run(['sh', '-c', 'printf "%s\n" "$1" "$A" "$PWD"; cat', 'sh', '$HOME *'],
    { cwd: work, env: { A: 'b c' }, stdin: 'input\n' });
  assert.equal(result.stdout, `$HOME *\nb c\n${work}\ninput\n`);
});

test('an option that is undefined has its default', async () => {
  const result = await box.run('echo kept', { keepOutput: undefined, cwd: undefined, timeout: undefined });
  assert.equal(result.stdout, 'kept\n');
});

test('a relative directory begins where steps start', async () => {
  const start = (await box.run('pwd')).stdout;
  assert.equal((await box.run('pwd', { cwd: '.' })).stdout, start);
});

test('the output is bytes, and text with U+FFFD', async () => {
  const result = await box.run(String.raw`printf '\357\273\277a\0\377\r\n'`);
  assert.deepEqual([...result.stdoutBytes], [0xef, 0xbb, 0xbf, 0x61, 0, 0xff, 0x0d, 0x0a]);
  assert.equal(result.stdout, '\ufeffa\0\ufffd\r\n');
});

test('a masked secret does not arrive', async () => {
  const result = await box.run('echo "$TOKEN"', { env: { TOKEN: 'secret-value' }, secrets: ['TOKEN'] });
  assert.equal(result.stdout, '***\n');
});

test('handlers get text as it arrives, and no character is cut', async () => {
  const GO = newFile('characters'), texts: string[] = [];
  const result = await box.run(String.raw`printf 'a\303'; ${wait}; printf '\251b\303'; printf e >&2`, {
    env: { GO }, keepOutput: false, onStderr: (text) => assert.equal(text, 'e'),
    onStdout(text) {
      if (texts.push(text) === 1) writeFileSync(GO, '');
    },
  });
  assert.deepEqual(texts, ['a', 'éb', '\ufffd']);
  assert.equal(result.stdout, '');
});

test('with check, another exit code than 0 is an error', async () => {
  const error = await failure(box.run('echo why; exit 3', { check: true }), sdk.ExitCodeError);
  assert.equal(error.message, 'why');
  assert.equal(error.result?.exitCode, 3);
});

// The agent gives up a reader that is silent for 10 s.
test('300,000 lines arrive at a reader that stands still for 15 s', async () => {
  let lines = 0, chunks = 0;
  const result = await box.run("seq 1 300000 | awk '{ print; fflush() }'", {
    async onStdout(text) {
      if (chunks++ === 0) await sleep(15_000);
      lines += text.split('\n').length - 1;
    },
  });
  assert.equal(lines, 300_000);
  assert.equal(result.stdout, Array.from({ length: 300_000 }, (_, i) => `${i + 1}\n`).join(''));
});

test('ten callers at once get their own output, beside a server that pops results', async () => {
  const other = server.redis.duplicate(), popped: unknown[] = [];
  await other.connect();
  let isOver = false;
  const popping = (async () => {
    while (!isOver) popped.push(await other.brPop(`sandbox:${job}:results`, 0.1));
  })();
  await server.redis.lPush(`sandbox:${job}:in`, '{"stepId":"of the server","command":"true"}');
  const numbers = Array.from({ length: 10 }, (_, i) => i);
  const results = await Promise.all(numbers.map((i) => box.run(`seq 1 2000 | sed s/^/${i}:/; exit ${i}`)));
  await until('result of the server', () => popped.some((one) => one !== null));
  isOver = true;
  await popping;
  other.destroy();
  for (const i of numbers) {
    assert.equal(results[i]?.exitCode, i);
    assert.equal(results[i]?.stdout, Array.from({ length: 2000 }, (_, line) => `${i}:${line + 1}\n`).join(''));
  }
  const elements = popped.filter((one) => one !== null) as { element: string }[];
  assert.deepEqual(elements.map(({ element }) => JSON.parse(element).stepId), ['of the server']);
  assert.deepEqual(await server.redis.keys(`sandbox:${job}:results*`), []);
});

test('entries of other programs are ignored', async () => {
  const GO = newFile('foreign');
  const result = await box.run(`echo out; ${wait}; echo end`, {
    env: { GO },
    async onStdout() {
      if (existsSync(GO)) return;
      const stepId = (await server.redis.get(`sandbox:${job}:started`))!;
      for (const data of ['text', '[]', '{}', 'null', `"${stepId}"`, `{"stepId":"${stepId}"}`, '{"stepId":"","seq":9}'])
        await server.redis.xAdd(events, '*', { data });
      await server.redis.xAdd(events, '*', { note: stepId });
      writeFileSync(GO, '');
    },
  });
  assert.equal(result.stdout, 'out\nend\n');
});

test('an invalid step, a missing command and a missing directory are rejected', async () => {
  const invalid = await failure(box.run('true', { env: { 'A=B': '' } }), sdk.RejectedError);
  assert.match(invalid.message, /env/);
  assert.equal(invalid.result?.end.cause, 'refused');
  await failure(box.run([]), sdk.RejectedError);
  for (const timeout of [-1, 0, 1.5, Infinity, NaN])
    await failure(box.run('true', { timeout }), sdk.RejectedError);
  const missing = await failure(box.run(['no-such-command']), sdk.RejectedError);
  assert.equal(missing.message, 'no-such-command: command not found on PATH');
  await failure(box.run('true', { cwd: '/no/such/directory' }), sdk.RejectedError);
});

test('the answer to a step without a list of its own is found in results', async () => {
  await server.redis.lPush(`sandbox:${job}:results`, ['{"stepId":"another","exitCode":0}', 'not JSON, no id']);
  for (const stepId of ['no id', 'a"b', 'é\n']) {
    const error = await failure(box.run('true', { stepId }), sdk.RejectedError);
    assert.match(error.message, /replyTo/);
  }
  assert.equal(await server.redis.lLen(`sandbox:${job}:results`), 2);
  await server.redis.del(`sandbox:${job}:results`);
});

test('an agent that lacks a feature is rejected', async () => {
  await server.redis.set('sandbox:old:heartbeat', '{"Version":"0.2.0","Features":["cancel"]}');
  const error = await failure(sandbox('old').run('true'), sdk.RejectedError);
  assert.match(error.message, /version 0\.2\.0 and lacks control, replyTo, raw, flowControl.*: 0\.3/);
  for (const heartbeat of ['text', 'null', '[]', '{"Features":null}', '{"Features":5}']) {
    await server.redis.set('sandbox:old:heartbeat', heartbeat);
    await failure(sandbox('old').run('true'), sdk.RejectedError);
  }
  assert.equal(await server.redis.lLen('sandbox:old:in'), 0);
});

test('a policy and limits are sent as they are, and not to an agent without the feature', async () => {
  const features = ['control', 'replyTo', 'raw', 'flowControl', 'allEntries'], key = 'sandbox:policy:';
  const beat = (...more: string[]) =>
    server.redis.set(`${key}heartbeat`, JSON.stringify({ Features: [...features, ...more] }));
  const options = { fence: { writePaths: [], network: 'none' as const }, limits: { cpuSeconds: 600 } };
  await beat('fence');
  const error = await failure(sandbox('policy').run('true', options), sdk.RejectedError);
  assert.match(error.message, /lacks limits: 0\.4/);
  assert.equal(await server.redis.lLen(`${key}in`), 0);
  await beat('fence', 'limits');
  const result = sandbox('policy').run('true', options);
  await until('step', () => server.redis.lLen(`${key}in`));
  const { stepId, fence, limits } = JSON.parse(await server.redis.lIndex(`${key}in`, 0) ?? '');
  assert.deepEqual({ fence, limits }, options);
  // An older agent has taken the job over, and takes the step.
  await server.redis.xAdd(`${key}events`, '*', { data: JSON.stringify({ stepId, kind: 'started', line: 'sh', seq: 1 }) });
  await server.redis.lPush(`${key}results:${stepId}`,
    JSON.stringify({ stepId, exitCode: 0, eventCount: 1, end: { cause: 'exited' } }));
  const ignored = await failure(result, sdk.PolicyIgnoredError);
  assert.match(ignored.message, /has run without its sandbox policy/);
  assert.equal(ignored.result?.exitCode, 0);
});

test('a deadline is an error with the output so far', async () => {
  const error = await failure(box.run('echo before; sleep 60', { timeout: 1 }), sdk.TimedOutError);
  assert.equal(error.result?.stdout, 'before\n');
  assert.match(error.message, /timed out after 1s/);
});

test('a signal cancels a running step, a waiting one, and one that was not sent', async () => {
  const controller = new AbortController(), { signal } = controller;
  const running = box.run('echo go; sleep 60', { signal, onStdout: () => controller.abort(new Error('enough')) });
  const waiting = box.run('echo never', { signal });
  const errors = await Promise.all([failure(running, sdk.CancelledError), failure(waiting, sdk.CancelledError)]);
  assert.equal(errors[0].result?.stdout, 'go\n');
  assert.equal(errors[1].result?.stdout, '');
  assert.equal((errors[0].cause as Error).message, 'enough');
  const late = await failure(box.run('echo never', { signal }), sdk.CancelledError);
  assert.equal(late.result, undefined);
});

test('a signal cancels a step whose handler waits', async () => {
  const controller = new AbortController();
  const run = box.run('echo go; exec sleep 60', {
    signal: controller.signal,
    async onStdout() {
      controller.abort();
      await until('result', async () => (await server.redis.get(`sandbox:${job}:started`)) === null);
    },
  });
  await failure(run, sdk.CancelledError);
});

test('another caller cancels a step by its id', async () => {
  const run = box.run('echo go; sleep 60', { stepId: 'mine', onStdout: () => sandbox(job).cancel('mine') });
  assert.equal((await failure(run, sdk.CancelledError)).result?.stepId, 'mine');
});

test('an error of a handler cancels the step, and is thrown', async () => {
  const run = box.run('echo go; sleep 60', { onStdout: () => { throw new TypeError('mine'); } });
  await assert.rejects(run, new TypeError('mine'));
  assert.equal(await server.redis.exists(`sandbox:${job}:started`), 0);
});

test('events that were deleted before they were read are an error', async () => {
  const GO = newFile('deleted');
  const run = box.run(`echo one; ${wait}; echo two`, {
    env: { GO },
    async onStdout() {
      const length = await server.redis.xLen(events);
      writeFileSync(GO, '');
      await until('second line', async () => await server.redis.xLen(events) > length);
      await until('result', async () => (await server.redis.get(`sandbox:${job}:started`)) === null);
      await server.redis.del(events);
    },
  });
  const error = await failure(run, sdk.LinesLostError);
  assert.equal(error.message, `2 events of step ${error.result?.stepId} are missing`);
  assert.equal(error.result?.stdout, 'one\n');
  assert.equal(error.result?.exitCode, 0);
});

test('a stream that begins again is read from its beginning', async () => {
  const GO = newFile('again');
  const run = box.run(`echo one; ${wait}; echo two`, {
    env: { GO },
    async onStdout(text) {
      if (text !== 'one\n') return;
      await server.redis.xAdd(events, '9999999999999-0', { note: 'the next ids are after this one' });
    },
  });
  const monitor = server.redis.duplicate();
  await monitor.connect();
  let isPast = false;
  await monitor.monitor((line) => { isPast ||= line.includes('"XREAD"') && line.includes('9999999999999-0'); });
  await until('read after that entry', () => isPast);
  monitor.destroy();
  await server.redis.del(events);
  writeFileSync(GO, '');
  assert.equal((await run).stdout, 'one\ntwo\n');
});

test('ping finds the agent, and shutdown stops it', async () => {
  const other = sandbox('shutdown');
  assert.equal(await other.ping(), false);
  const agent = await server.agent('shutdown');
  assert.equal(await other.ping(), true);
  const run = other.run('echo before');
  await until('step', async () => await server.redis.xLen('sandbox:shutdown:events') > 0);
  await other.shutdown();
  assert.equal((await run).stdout, 'before\n');
  await until('exit', () => agent.exitCode !== null);
  assert.equal(agent.exitCode, 0);
  assert.equal(await other.ping(), false);
});

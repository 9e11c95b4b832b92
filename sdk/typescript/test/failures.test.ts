import assert from 'node:assert/strict';
import { once } from 'node:events';
import { readFileSync, writeFileSync } from 'node:fs';
import { type AddressInfo, connect, createServer as createProxy } from 'node:net';
import { test } from 'node:test';
import * as sdk from 'sandbox-agent-redis';
import { failure, newFile, sandbox, server, stop, until } from './support.js';

/** Prints numbers until the file exists, and writes a line for each run of the command. */
const count = 'echo run >>"$RUNS"; i=0; until [ -e "$GO" ]; do i=$((i + 1)); echo $i; done; echo end $i';

function assertComplete(output: string): void {
  const lines = output.split('\n'), last = lines.length - 2;
  for (let i = 0; i < last; i++) assert.equal(lines[i], `${i + 1}`);
  assert.equal(lines[last], `end ${last}`);
}

test('output is complete although connections are lost all the time, and the step runs once', async () => {
  const GO = newFile('cut'), RUNS = newFile('cut-runs'), job = 'cut';
  await server.agent(job);
  let chunks = 0;
  const run = sandbox(job).run(count, { env: { GO, RUNS }, onStdout: () => { chunks++; } });
  for (let kills = 0; kills < 40;) {
    const before = chunks;
    await until('output', () => chunks > before);
    kills += await server.killConnections();
  }
  writeFileSync(GO, '');
  assertComplete((await run).stdout);
  assert.equal(readFileSync(RUNS, 'utf8'), 'run\n');
});

/** Passes bytes on, and closes the connection that pushes a step to `in` before Redis has the step, or its client the
 *  reply. */
async function startProxy(loses: 'the step' | 'the reply'): Promise<{ url: string; stop(): void; losses: number }> {
  const result = { url: '', stop: () => {}, losses: 0 };
  const proxy = createProxy((client) => {
    const redis = connect(Number(new URL(server.url).port), '127.0.0.1');
    let isLost = false;
    const close = () => { client.destroy(); redis.destroy(); };
    client.on('data', (bytes) => {
      isLost ||= result.losses < 3 && bytes.includes('LPUSH') && bytes.includes(':in\r\n');
      if (isLost) result.losses++;
      if (isLost && loses === 'the step') close();
      else redis.write(bytes);
    });
    redis.on('data', (bytes) => isLost ? close() : client.write(bytes));
    client.on('close', close).on('error', close);
    redis.on('close', close).on('error', close);
  }).listen(0, '127.0.0.1');
  await once(proxy, 'listening');
  result.url = `redis://:secret@127.0.0.1:${(proxy.address() as AddressInfo).port}`;
  result.stop = () => { proxy.close(); };
  return result;
}

for (const [loses, losses] of [['the step', 3], ['the reply', 1]] as const)
  test(`a step runs once although its push loses ${loses}`, async () => {
    const job = `push-${losses}`, RUNS = newFile(`${job}-runs`), proxy = await startProxy(loses);
    await server.agent(job);
    const box = new sdk.Sandbox(proxy.url, job);
    assert.equal((await box.run('echo run >>"$RUNS"; echo out', { env: { RUNS } })).stdout, 'out\n');
    assert.equal(proxy.losses, losses);
    assert.equal(readFileSync(RUNS, 'utf8'), 'run\n');
    box.close();
    proxy.stop();
  });

for (const background of ['', "trap '' TERM; while :; do sleep 0.1; done >/dev/null 2>&1 &"])
  test(`a shutdown is not repeated${background && ' while its agent waits for processes'}`, async () => {
    const job = `shutdown-${background.length}`, agent = await server.agent(job), proxy = await startProxy('the reply');
    await sandbox(job).run(background);
    const box = new sdk.Sandbox(proxy.url, job);
    await box.shutdown();
    await until('exit', () => agent.exitCode !== null);
    assert.equal(proxy.losses, 1);
    assert.equal(await server.redis.lLen(`sandbox:${job}:in`), 0);
    box.close();
    proxy.stop();
  });

test('output is complete after a restart of Redis, and the step runs once', async () => {
  const GO = newFile('restart'), RUNS = newFile('restart-runs'), job = 'restart';
  await server.agent(job);
  let chunks = 0;
  const run = sandbox(job).run(count, { env: { GO, RUNS }, onStdout: () => { chunks++; } });
  for (let restarts = 0; restarts < 3; restarts++) {
    const before = chunks;
    await until('output', () => chunks > before + 2);
    await server.kill();
    await until('redis-server', () => server.run());
  }
  writeFileSync(GO, '');
  assertComplete((await run).stdout);
  assert.equal(readFileSync(RUNS, 'utf8'), 'run\n');
});

test('the step of an agent that is killed is interrupted, and the next agent runs the next step', async () => {
  const job = 'killed', box = sandbox(job), agent = await server.agent(job);
  const run = box.run('echo before; exec sleep 60', { onStdout: () => stop(agent, 'SIGKILL') });
  const interrupted = failure(run, sdk.InterruptedError);
  const waiting = box.run('echo next');
  await until('exit', () => agent.signalCode !== null);
  await server.agent(job);
  const error = await interrupted;
  assert.equal(error.result?.stdout, 'before\n');
  assert.equal(error.result?.end.cause, 'lost');
  assert.equal((await waiting).stdout, 'next\n');
});

test('a step that is in no list, and has no result, is interrupted', async () => {
  const job = 'lost', box = sandbox(job), agent = await server.agent(job);
  const run = box.run('sleep 60', { stepId: 'lost' });
  const interrupted = failure(run, sdk.InterruptedError);
  await until('start', async () => await server.redis.get(`sandbox:${job}:started`) !== null);
  await stop(agent, 'SIGKILL');
  await server.redis.del([`sandbox:${job}:started`, `sandbox:${job}:inflight`]);
  assert.match((await interrupted).message, /^step lost is neither waiting nor running/);
});

test('a step that has not started is withdrawn if the agent is gone', async () => {
  const job = 'gone', agent = await server.agent(job);
  await stop(agent, 'SIGKILL'); // its heartbeat expires later
  const error = await failure(sandbox(job).run('true', { stepId: 'unstarted' }), sdk.AgentGoneError);
  assert.match(error.message, /step unstarted was withdrawn and does not run$/);
  assert.equal(await server.redis.lLen(`sandbox:${job}:in`), 0);
});

test('without an agent, nothing is pushed', async () => {
  const error = await failure(sandbox('none').run('true'), sdk.AgentGoneError);
  assert.equal(error.message, 'no agent for none: no heartbeat; nothing was executed');
  assert.deepEqual(await server.redis.keys('sandbox:none:*'), []);
});

test('Redis that refuses a command or the login is an error at once', async () => {
  await server.redis.set('sandbox:type:in', 'no list');
  await server.redis.set('sandbox:type:heartbeat', JSON.stringify({
    Version: '0.3.0', Features: ['control', 'replyTo', 'raw', 'flowControl', 'allEntries'] }));
  const type = await failure(sandbox('type').run('true'), sdk.RedisGoneError);
  assert.match(type.message, /^redis is gone: WRONGTYPE/);
  const stranger = new sdk.Sandbox(server.url.replace('secret', 'wrong'), 'none');
  assert.match((await failure(stranger.ping(), sdk.RedisGoneError)).message, /^redis is gone: (WRONGPASS|NOAUTH)/);
  stranger.close();
});

test('Redis that is away for 15 s is an error, and close ends what waits', async () => {
  const away = new sdk.Sandbox('redis://127.0.0.1:1', 'none'), start = performance.now();
  const error = await failure(away.ping(), sdk.RedisGoneError);
  assert.match(error.message, /^redis is gone: .*ECONNREFUSED/);
  assert(performance.now() - start >= 15_000);
  const waiting = failure(away.ping(), sdk.SandboxError);
  away.close();
  assert.equal((await waiting).message, 'the sandbox was closed');
});

// A Redis server and agents of their own for the tests of one file.
//
//   AGENT=path REDIS_SERVER=program node --test
import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { randomInt } from 'node:crypto';
import { once } from 'node:events';
import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { createClient } from 'redis';
import { Sandbox, type SandboxError } from 'sandbox-agent-redis';

export const work = mkdtempSync(join(tmpdir(), 'sandbox-sdk-'));
const processes = new Set<ChildProcess>();

export async function until(what: string, condition: () => unknown): Promise<void> {
  for (const end = performance.now() + 60_000; !await condition(); await sleep(10))
    assert(performance.now() < end, `no ${what} after 60 s`);
}

export async function stop(child: ChildProcess, signal: NodeJS.Signals = 'SIGTERM'): Promise<void> {
  processes.delete(child);
  if (child.exitCode !== null || child.signalCode !== null) return;
  const exit = once(child, 'exit');
  child.kill(signal);
  await exit;
}

function start(program: string, ...args: string[]): ChildProcess {
  const child = spawn(program, args, { cwd: work, stdio: 'ignore' });
  processes.add(child);
  return child;
}

export class Server {
  url = '';
  redis = createClient();
  #process!: ChildProcess;

  /** If the port is in use, the server exits, and another port is tried; no port that the kernel gives to clients. */
  static async start(): Promise<Server> {
    for (let attempts = 0; attempts < 10; attempts++) {
      const server = new Server();
      server.url = `redis://:secret@127.0.0.1:${randomInt(20_000, 32_000)}`;
      if (!await server.run()) continue;
      server.redis = createClient({ url: server.url, commandOptions: { timeout: 60_000 } });
      server.redis.on('error', () => {});
      await server.redis.connect();
      return server;
    }
    return assert.fail('redis-server does not start');
  }

  async run(): Promise<boolean> {
    this.#process = start(process.env.REDIS_SERVER ?? 'redis-server', '--port', new URL(this.url).port, '--bind',
      '127.0.0.1', '--dir', work, '--save', '', '--appendonly', 'yes', '--requirepass', 'secret');
    const probe = createClient({ url: this.url, socket: { reconnectStrategy: 20 } });
    probe.on('error', () => {});
    const connected = probe.connect().catch(() => {});
    let isOurs = false;
    await until('redis-server', async () => {
      const info = probe.isReady ? await probe.info('server').catch(() => '') : '';
      isOurs = info.includes(`process_id:${this.#process.pid}`);
      return isOurs || this.#process.exitCode !== null;
    });
    await connected;
    probe.destroy();
    return isOurs;
  }

  async kill(): Promise<void> {
    await stop(this.#process);
  }

  async agent(job: string, ...args: string[]): Promise<ChildProcess> {
    const child = start(process.env.AGENT ?? 'build/agent', '--redis-url', this.url, '--job-id', job, ...args);
    await until('heartbeat', async () => {
      assert.equal(child.exitCode, null, 'the agent has exited');
      return JSON.parse(await this.redis.get(`sandbox:${job}:heartbeat`) ?? '{}').Pid === child.pid;
    });
    return child;
  }

  /** Kills the connections of the SDK, and returns their number. */
  async killConnections(): Promise<number> {
    const clients = await this.redis.sendCommand<string>(['CLIENT', 'LIST']);
    const ids = [...clients.matchAll(/^id=(\d+) .*name=sandbox-sdk /gm)].map(([, id]) => id!);
    for (const id of ids) await this.redis.sendCommand(['CLIENT', 'KILL', 'ID', id]);
    return ids.length;
  }
}

export const server = await Server.start();
const sandboxes: Sandbox[] = [];

export function sandbox(job: string): Sandbox {
  const result = new Sandbox(server.url, job);
  sandboxes.push(result);
  return result;
}

/** Returns the error that the promise is rejected with, which must be of this class. */
export async function failure<T extends SandboxError>(promise: Promise<unknown>,
                                                      type: new (...args: never[]) => T): Promise<T> {
  const error = await promise.then(() => assert.fail(`no ${type.name}`), (reason: unknown) => reason);
  if (!(error instanceof type)) throw error;
  assert.equal(error.name, type.name);
  return error;
}

/** A file for which a command waits, as in `until [ -e "$GO" ]; do sleep 0.01; done`. */
export const newFile = (name: string) => {
  const path = join(work, name);
  assert(!existsSync(path));
  return path;
};

after(async () => {
  for (const one of sandboxes) one.close();
  server.redis.destroy();
  for (const child of processes) await stop(child, 'SIGKILL');
  rmSync(work, { recursive: true, force: true });
});

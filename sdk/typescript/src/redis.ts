/**
 * The connection to Redis and the keys of a job (wire/PROTOCOL.md). The hard part is a connection that is lost before
 * the reply: whether Redis executed the command is then unknown, so only `call` repeats a command.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { createClient, ErrorReply } from 'redis';
import { type Answer, type Entry, parseObject, parseOfStep } from './core.js';
import { AgentGoneError, RedisGoneError, RejectedError, SandboxError } from './errors.js';

/** A call fails if Redis is away for this time. A connection that is silent for this time is lost. */
const OUTAGE_MS = 15_000;
/** An agent that was just started has a heartbeat after this time. */
const START_MS = 2000;
/** Elements of a list per reply. */
const PAGE = 50;
/** How long `control` lives without an agent. */
const CONTROL_SECONDS = '86400';
const FEATURES = ['control', 'replyTo', 'raw', 'flowControl', 'allEntries'];
/** Redis did not execute the command, and may do so soon. */
const TRANSIENT = /^(OOM|LOADING|READONLY|MISCONF|CLUSTERDOWN|BUSY|TRYAGAIN|MASTERDOWN|NOREPLICAS|ERR max number) /;

export const isRefusal = (error: unknown) => error instanceof ErrorReply && !TRANSIENT.test(error.message);

/** Certificates and the key as PEM. */
export type TlsOptions = { ca?: string; cert?: string; key?: string; servername?: string };

class ConnectionLost extends Error {}

export class Connection {
  /** When the connection was last established. */
  readyAt = 0;
  readonly #client;
  #failure?: Error;
  #isClosed = false;

  constructor(url: string, tls: TlsOptions = {}) {
    const reconnectStrategy = (retries: number, cause: Error) =>
      this.#isClosed || isRefusal(cause) ? false : Math.min(50 * 2 ** retries, 1000) * (0.5 + Math.random() / 2);
    this.#client = createClient({
      url, name: 'sandbox-sdk', disableClientInfo: true, pingInterval: OUTAGE_MS / 3,
      commandOptions: { timeout: OUTAGE_MS }, // for a command that cannot be sent
      socket: { ...tls as object, reconnectStrategy, socketTimeout: OUTAGE_MS },
    });
    this.#client.on('error', (error) => { this.#failure = error; });
    this.#client.on('ready', () => {
      this.readyAt = performance.now();
      if (this.#isClosed) this.#client.destroy();
    });
  }

  /** Sends a command, and repeats it whenever the connection is lost. */
  async call<T>(...words: string[]): Promise<T> {
    for (const start = performance.now();; await sleep(20)) {
      const reply = await this.ask<T>(start, ...words);
      if (!(reply instanceof ConnectionLost)) return reply;
    }
  }

  /** Sends a command once. Returns ConnectionLost if it is unknown whether Redis has executed it. */
  async ask<T>(start: number, ...words: string[]): Promise<T | ConnectionLost> {
    if (!this.#isClosed && !this.#client.isOpen) this.#client.connect().catch(() => {}); // the event has the error
    try {
      return await this.#client.sendCommand<T>(words);
    } catch (error) {
      if (this.#isClosed) throw new SandboxError('the sandbox was closed');
      if (!isRefusal(error) && performance.now() - start < OUTAGE_MS) return new ConnectionLost();
      const cause = error instanceof ErrorReply ? error : this.#failure;
      throw new RedisGoneError(`redis is gone: ${cause?.message}`, undefined, { cause });
    }
  }

  /** What waits for Redis fails, in an outage with the next attempt to connect. */
  close(): void {
    this.#isClosed = true;
    if (this.#client.isReady) this.#client.destroy();
  }
}

export class Job {
  constructor(readonly redis: Connection, readonly name: string) {}

  key(name: string): string {
    return `sandbox:${this.name}:${name}`;
  }

  call<T>(command: string, key: string, ...words: string[]): Promise<T> {
    return this.redis.call(command, this.key(key), ...words);
  }

  /** Returns the directory in which steps start, if it is known. `features` are those of the step's fields. */
  async requireAgent(features: string[]): Promise<string | undefined> {
    let heartbeat: string | null;
    for (const end = performance.now() + START_MS; (heartbeat = await this.call('GET', 'heartbeat')) === null;) {
      if (performance.now() > end)
        throw new AgentGoneError(`no agent for ${this.name}: no heartbeat; nothing was executed`);
      await sleep(50);
    }
    const { Version = '0.1', Features, WorkingDirectory } = parseObject(heartbeat);
    const lacks = [...FEATURES, ...features].filter((feature) => ![Features].flat().includes(feature)).join(', ');
    const needs = features.length > 0 ? '0.4' : '0.3';
    if (lacks !== '')
      throw new RejectedError(`the agent has version ${Version} and lacks ${lacks}: ${needs} and Redis 6.2 are needed`);
    return WorkingDirectory;
  }

  /** Returns the id of the newest event, or `0-0`. */
  async newest(): Promise<string> {
    return (await this.call<Entry[]>('XREVRANGE', 'events', '+', '-', 'COUNT', '1'))[0]?.[0] ?? '0-0';
  }

  /** Pushes a step exactly once: after a lost connection, it looks whether Redis has the step or its result. */
  async push(stepId: string, json: string, isDone: () => Promise<unknown> =
      async () => await this.result(stepId) ?? await this.#find('results', stepId)): Promise<void> {
    const start = performance.now();
    while (await this.redis.ask(start, 'LPUSH', this.key('in'), json) instanceof ConnectionLost)
      if (await this.has(stepId) || await isDone()) return;
  }

  /** Whether the step waits or runs. `in` comes first: a step that moves meanwhile is then in `inflight`. */
  async has(stepId: string): Promise<boolean> {
    return await this.call('GET', 'started') === stepId ||
      await this.#find('in', stepId) !== undefined || await this.#find('inflight', stepId) !== undefined;
  }

  /** Others push at the head of the list meanwhile: an element may be visited twice, and is not left out. */
  async #find(list: string, stepId: string): Promise<string | undefined> {
    for (let at = 0;; at += PAGE) {
      const page = await this.call<string[]>('LRANGE', list, `${at}`, `${at + PAGE - 1}`);
      const found = page.find((element) => parseOfStep(element, stepId) !== undefined);
      if (found !== undefined || page.length < PAGE) return found;
    }
  }

  async result(stepId: string): Promise<Answer | undefined> {
    return parseOfStep(await this.call<string | null>('LINDEX', `results:${stepId}`, '-1'), stepId);
  }

  /** The answer to a step whose `replyTo` the agent cannot use is in `results`. */
  async takeStrayResult(stepId: string): Promise<Answer | undefined> {
    const element = await this.#find('results', stepId);
    if (element !== undefined) await this.call('LREM', 'results', '1', element);
    return parseOfStep(element, stepId);
  }

  /** Pushes a control message. The agent may be gone, and nobody else would let the list expire. */
  async control(kind: 'cancel' | 'read', stepId: string, seq?: number): Promise<void> {
    await Promise.all([this.call('LPUSH', 'control', JSON.stringify({ kind, stepId, seq })),
      this.call('EXPIRE', 'control', CONTROL_SECONDS)]);
  }
}

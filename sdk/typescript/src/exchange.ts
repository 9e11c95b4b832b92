/**
 * Runs one step: pushes it, delivers its output, and takes its result and no other. The hard part is what may happen
 * meanwhile: the caller cancels or cannot take output, and Redis, the agent or the step may go away.
 */
import { randomUUID } from 'node:crypto';
import { type Answer, type Chunk, type Entry, isBefore, StepRecord, type StepResult } from './core.js';
import { AgentGoneError, InterruptedError, RedisGoneError } from './errors.js';
import { type Connection, isRefusal, type Job } from './redis.js';

/** How often messages to the agent are sent, the result is looked for, and agent and step are looked for. */
const TICK_MS = 250, RESULT_MS = 250, CHECK_MS = 2000;
/** Without a heartbeat for AWAY_MS, a step that has not started is withdrawn. After GONE_MS, the wait ends. */
const AWAY_MS = 12_000, GONE_MS = 60_000;
/** A step that is in no list for this time, and has no result, is lost. */
const LOST_MS = 10_000;

export interface Request {
  step: object;
  stepId?: string;
  signal?: AbortSignal;
  keepOutput: boolean;
  deliver(chunk: Chunk): unknown;
}

export class Exchange {
  readonly #id;
  readonly #json;
  readonly #record;
  #failure?: { error: unknown }; // of `deliver`
  #cancel: 'none' | 'wanted' | 'sent' = 'none';
  #isBlocked = false;
  #sending?: Promise<void>;
  #resultAt = performance.now();
  #checkedAt = this.#resultAt;
  #aliveAt = this.#resultAt;
  #presentAt = this.#resultAt;

  constructor(private job: Job, private reader: Connection, position: string, private request: Request) {
    const stepId = this.#id = request.stepId || randomUUID(), { fence }: { fence?: object } = request.step;
    this.#record = new StepRecord(stepId, position, request.keepOutput, this.#resultAt, fence != null);
    this.#json = JSON.stringify({ schemaVersion: 1, stepId, replyTo: stepId, flowControl: true, ...request.step });
  }

  async run(): Promise<StepResult> {
    const { signal } = this.request, cancel = () => this.#wantCancel();
    await this.job.push(this.#id, this.#json);
    const timer = setInterval(() => this.#tick(), TICK_MS);
    signal?.addEventListener('abort', cancel);
    if (signal?.aborted) cancel();
    try {
      const answer = await this.#wait();
      await this.#pass(this.#record.flush());
      await this.#sending;
      await Promise.all([this.#send(true), this.job.call('DEL', `results:${this.#id}`)]);
      if (this.#failure !== undefined) throw this.#failure.error;
      return this.#record.conclude(answer, signal?.reason);
    } catch (error) {
      if (error instanceof RedisGoneError && isRefusal(error.cause)) cancel(); // nobody reads the events anymore
      await this.#sending;
      throw error;
    } finally {
      clearInterval(timer);
      signal?.removeEventListener('abort', cancel);
    }
  }

  async #wait(): Promise<Answer> {
    for (let answer: Answer | undefined;;) {
      await this.#pass(this.#record.accept(await this.#read('BLOCK', `${RESULT_MS}`)));
      const now = performance.now();
      if (this.#record.isCompleted || now - this.#resultAt >= RESULT_MS) {
        this.#resultAt = now;
        answer = await this.job.result(this.#id);
      }
      if (answer === undefined && now - this.#checkedAt >= CHECK_MS) answer = await this.#check();
      if (answer === undefined) continue;
      await this.#readRest(answer.eventCount ?? Infinity);
      return answer;
    }
  }

  async #read(...block: string[]): Promise<Entry[]> {
    const streams = await this.reader.call<[key: string, entries: Entry[]][] | null>(
      'XREAD', 'COUNT', '1000', ...block, 'STREAMS', this.job.key('events'), this.#record.position);
    return streams?.[0]?.[1] ?? [];
  }

  /** The events precede the result. If they are not there, they were deleted. */
  async #readRest(eventCount: number): Promise<void> {
    const newest = await this.job.newest();
    this.#record.rewind(newest);
    for (let count = 1; count > 0 && this.#record.seq < eventCount && isBefore(this.#record.position, newest);) {
      const entries = await this.#read();
      await this.#pass(this.#record.accept(entries));
      count = entries.length;
    }
  }

  async #pass(chunks: Iterable<Chunk>): Promise<void> {
    for (const chunk of chunks) {
      this.#isBlocked = true;
      try {
        if (this.#failure === undefined) await this.request.deliver(chunk);
      } catch (error) {
        this.#failure = { error };
        this.#wantCancel();
      }
      this.#isBlocked = false;
    }
    this.#tick();
  }

  /** Looks whether the agent and the step are there. Returns the answer if it is not where it belongs. */
  async #check(): Promise<Answer | undefined> {
    const job = this.job, id = this.#id, { readyAt } = job.redis;
    const [heartbeat, newest, isPresent] = await Promise.all(
      [job.call<string | null>('GET', 'heartbeat'), job.newest(), job.has(id)]);
    const now = this.#checkedAt = performance.now();
    this.#record.rewind(newest);
    if (heartbeat !== null) this.#aliveAt = now;
    if (isPresent) this.#presentAt = now;
    const answer = isPresent ? undefined : await job.takeStrayResult(id);
    if (answer !== undefined) return answer;
    if (now - Math.max(this.#presentAt, readyAt) >= LOST_MS)
      throw new InterruptedError(`step ${id} is neither waiting nor running, and has no result`);
    const silence = now - Math.max(this.#aliveAt, readyAt);
    if (silence >= AWAY_MS && this.#record.seq === 0 && await job.call('LREM', 'in', '1', this.#json) === 1)
      throw new AgentGoneError(`no agent for ${job.name}: no heartbeat; step ${id} was withdrawn and does not run`);
    if (silence < GONE_MS) return undefined;
    await job.control('cancel', id);
    throw new AgentGoneError(`no heartbeat for 60 s: step ${id} has no result, and may have run`);
  }

  #wantCancel(): void {
    if (this.#cancel === 'none') this.#cancel = 'wanted';
    this.#tick();
  }

  #tick(): void {
    this.#sending ??= this.#send(false).finally(() => { this.#sending = undefined; });
  }

  /** Sends the messages that are due. What fails is sent again later; `#read` reports the error. */
  async #send(isOver: boolean): Promise<void> {
    try {
      if (this.#cancel === 'wanted') await this.job.control('cancel', this.#id).then(() => { this.#cancel = 'sent'; });
      const seq = this.#record.acknowledge(performance.now(), this.#isBlocked, isOver);
      if (seq !== undefined) await this.job.control('read', this.#id, seq);
    } catch {
      this.#record.acknowledged = 0;
    }
  }
}

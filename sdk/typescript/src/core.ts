/**
 * What has arrived of one step: events go in, and output, acknowledgements and the outcome come out. There is no I/O
 * here, and times are milliseconds of the caller's clock. The hard part is a stream that has foreign entries, may lose
 * entries, and may begin again (wire/PROTOCOL.md).
 */
import * as errors from './errors.js';

/** An entry of the stream: its id, then names and values in turns. */
export type Entry = [id: string, fields: string[]];
export type Chunk = { stream: 'stdout' | 'stderr'; text: string };
type Event = { kind: string; line: string; seq: number; partial?: boolean; encoding?: string; fence?: object };

/** The agent's StepResult (wire/PROTOCOL.md). */
export interface Answer {
  stepId: string;
  /** The code of the command, 128 + N after signal N, or -1 if there is none. */
  exitCode: number;
  durationSeconds: number;
  errorMessage: string | null;
  /** The answer of a file step. */
  outputContent: string | null;
  eventCount: number | null;
  /** Why the step ended, such as `exited` or `signal`, and what it used. Unknown figures are absent. */
  end: { cause: string; [figure: string]: unknown };
  /** What the kernel could not enforce of the sandbox policy, and what the policy may have denied. */
  fence?: { missing: string[]; denials?: Denial[] };
}

/** What the policy denied or, unless it is certain, may have denied (wire/PROTOCOL.md). */
export interface Denial {
  access: 'read' | 'write' | 'network';
  path?: string;
  certain: boolean;
}

/** The output is empty with `keepOutput: false`. In its text, U+FFFD replaces bytes that are not UTF-8. */
export interface StepResult extends Answer {
  readonly stdout: string;
  readonly stderr: string;
  stdoutBytes: Uint8Array;
  stderrBytes: Uint8Array;
  /** The number of events that were deleted before they were read. */
  missing: number;
}

/** An acknowledgement is due after this many events or this time. A blocked reader repeats the last one. */
const READ_EVENTS = 1000, READ_MS = 250, SIGN_MS = 2000;
const FAILURES = new Map<unknown, typeof errors.SandboxError>([
  ['timeout', errors.TimedOutError], ['cancelled', errors.CancelledError], ['lost', errors.InterruptedError],
  ['notStarted', errors.RejectedError], ['refused', errors.RejectedError],
]);
const newDecoder = () => new TextDecoder('utf-8', { ignoreBOM: true });

/** Parses a JSON object. Returns an empty one for any other text. */
export function parseObject(text: string): any {
  try {
    return Object(JSON.parse(text));
  } catch {
    return {};
  }
}

/** Parses a JSON object of this step. Anyone may write to the stream and the lists: other texts are ignored. */
export function parseOfStep<T>(text: string | null | undefined, stepId: string): T | undefined {
  const object = text?.includes(JSON.stringify(stepId)) ? parseObject(text) : undefined;
  return object?.stepId === stepId ? object : undefined;
}

/** The order of two entry ids, such as `1700000000000-0`. */
export function isBefore(entry: string, other: string): boolean {
  const [a, b] = [entry, other].map((id) => id.split('-').map((number) => number.padStart(20, '0')).join('-'));
  return a! < b!;
}

export class StepRecord {
  /** The `seq` of the last event, which is 0 before the step starts, and of the last acknowledgement. */
  seq = 0;
  acknowledged = 0;
  isCompleted = false;
  #missing = 0;
  #lacksPolicy = false; // the step has started, and its agent applies no sandbox policy
  #delivered = 0; // the seq of the last event whose output was delivered
  readonly #output = { stdout: [] as Uint8Array[], stderr: [] as Uint8Array[] };
  readonly #decoders = { stdout: newDecoder(), stderr: newDecoder() };

  /** `position` is the id of the last entry that was read. */
  constructor(readonly stepId: string, public position: string, private keepsOutput: boolean, private sentAt: number,
              private needsPolicy = false) {}

  /** Returns the output in the entries. A chunk counts as delivered when the next one is requested. */
  *accept(entries: Entry[]): Generator<Chunk> {
    for (const [id, fields] of entries) {
      const event = parseOfStep<Event>(fields[fields.indexOf('data') + 1], this.stepId);
      this.position = id;
      if (event === undefined || !Number.isSafeInteger(event.seq) || event.seq <= this.seq) continue;
      const { kind: stream, seq } = event, line = typeof event.line === 'string' ? event.line : '';
      this.#missing += seq - this.seq - 1;
      this.seq = seq;
      this.isCompleted ||= stream === 'completed';
      if (stream === 'started') this.#lacksPolicy = event.fence === undefined;
      if (stream === 'stdout' || stream === 'stderr') {
        const bytes = event.encoding ? Buffer.from(line, 'base64') : Buffer.from(event.partial ? line : `${line}\n`);
        if (this.keepsOutput) this.#output[stream].push(bytes);
        const text = this.#decoders[stream].decode(bytes, { stream: true });
        if (text !== '') yield { stream, text };
      }
      this.#delivered = seq;
    }
  }

  /** Returns what is left of an incomplete character at the end of the output. */
  flush(): Chunk[] {
    return (['stdout', 'stderr'] as const).map((stream) => ({ stream, text: this.#decoders[stream].decode() }))
      .filter(({ text }) => text !== '');
  }

  /** If the newest entry is older than the last one that was read, the stream was deleted or lost, and begins again. */
  rewind(newest: string): void {
    if (newest !== '0-0' && isBefore(newest, this.position)) this.position = '0-0';
  }

  /** Returns the `seq` to acknowledge if that is due, and then counts it as sent. */
  acknowledge(now: number, isBlocked: boolean, isOver: boolean): number | undefined {
    const events = this.#delivered - this.acknowledged, passed = now - this.sentAt;
    const isDue = events > 0 ? events >= READ_EVENTS || passed >= READ_MS || isOver : isBlocked && passed >= SIGN_MS;
    if (!isDue) return undefined;
    this.sentAt = now;
    return this.acknowledged = this.#delivered;
  }

  /** Returns the result, or throws the error that the answer means. `cause` is why the step was cancelled. */
  conclude(answer: Answer, cause: unknown): StepResult {
    const result: StepResult = {
      ...answer,
      stdoutBytes: Buffer.concat(this.#output.stdout),
      stderrBytes: Buffer.concat(this.#output.stderr),
      missing: this.#missing + Math.max(0, (Number(answer.eventCount) || 0) - this.seq),
      get stdout() { return newDecoder().decode(this.stdoutBytes); },
      get stderr() { return newDecoder().decode(this.stderrBytes); },
    };
    const Failure = FAILURES.get(answer.end?.cause);
    if (this.needsPolicy && this.#lacksPolicy && Failure !== errors.RejectedError)
      throw new errors.PolicyIgnoredError(
        `step ${this.stepId} has run without its sandbox policy: the agent that took it lacks fence`, result, { cause });
    if (Failure !== undefined) throw new Failure(answer.errorMessage ?? answer.end.cause, result, { cause });
    if (result.missing === 0) return result;
    throw new errors.LinesLostError(`${result.missing} events of step ${this.stepId} are missing`, result);
  }
}

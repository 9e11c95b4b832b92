import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import type { StepResult } from './core.js';
import { CancelledError, ExitCodeError, RejectedError } from './errors.js';
import { Exchange, type Request } from './exchange.js';
import { Files } from './files.js';
import { Connection, Job, type TlsOptions } from './redis.js';

/** An agent that has taken a shutdown exits, and deletes its heartbeat, in this time. */
const EXIT_MS = 10_000;

/** Receives text as it arrives. The command waits for a promise that it returns. */
export type OutputHandler = (text: string) => unknown;

export interface StepOptions {
  /** The deadline in whole seconds from the start of the command; 600 by default. */
  timeout?: number;
  /** Cancels the step, which ends within 10 s. */
  signal?: AbortSignal;
  /** An error that a handler throws cancels the step, and the call throws it. */
  onStderr?: OutputHandler;
}

/** The sandbox policy of a step (wire/PROTOCOL.md). Paths may be relative to `cwd`; absent members restrict nothing. */
export interface Fence {
  /** Files and directories below which the step may write: `[]` is nowhere. */
  writePaths?: string[];
  /** Files and directories below which it may read and execute. */
  readPaths?: string[];
  network?: 'all' | 'ports' | 'loopback' | 'none';
  /** Ports to which, and from which, it may use TCP with the network `ports`. */
  tcpConnect?: number[];
  tcpBind?: number[];
  /** Leaves out what the kernel cannot enforce, instead of refusing the step. */
  bestEffort?: boolean;
}

/** The limits of a step (wire/PROTOCOL.md): the first two of all of its processes, the others of each one. */
export interface Limits {
  memoryBytes?: number;
  processes?: number;
  openFiles?: number;
  fileSizeBytes?: number;
  cpuSeconds?: number;
  coreBytes?: number;
}

export interface RunOptions extends StepOptions {
  onStdout?: OutputHandler;
  /** Relative to `/work`, or to the agent's directory if there is no `/work`. */
  cwd?: string;
  /** Added to the agent's environment. */
  env?: Record<string, string>;
  /** The complete standard input. */
  stdin?: string;
  /** Names of variables whose values are masked in the output. */
  secrets?: string[];
  /** Whether the result has the output; true by default. */
  keepOutput?: boolean;
  /** Whether another exit code than 0 is an ExitCodeError. */
  check?: boolean;
  /** Both need an agent of version 0.4. An older one is a RejectedError or, if it has run the step without its policy
   *  nevertheless, a PolicyIgnoredError. */
  fence?: Fence;
  limits?: Limits;
  /** A new id, 1 to 64 of `A-Z a-z 0-9 . _ -`; random by default. */
  stepId?: string;
}

/** The sandbox of a job. It connects when it is used. Calls may overlap; the agent runs one step at a time. */
export class Sandbox {
  readonly files = new Files((step, options) => this.#execute({ step, keepOutput: false, ...options,
    deliver: ({ stream, text }) => stream === 'stderr' ? options.onStderr?.(text) : undefined }, options.timeout));
  readonly #job;
  readonly #connect;
  readonly #connections: Connection[] = [];
  readonly #readers: Connection[] = []; // those that no step uses

  /** `url` is `redis://[USER:PASSWORD@]HOST[:PORT][/DATABASE]`, or `rediss:` for TLS. */
  constructor(url: string, job: string, options: { tls?: TlsOptions } = {}) {
    this.#connect = () => this.#connections[this.#connections.push(new Connection(url, options.tls)) - 1]!;
    this.#job = new Job(this.#connect(), job);
  }

  /**
   * Runs a text in `sh`, or a program with its arguments without a shell. Any exit code is a result. After an
   * AgentGoneError, RedisGoneError or InterruptedError the command may still run; after other errors it does not.
   */
  async run(command: string | readonly string[], options: RunOptions = {}): Promise<StepResult> {
    const [program = '', ...args] = typeof command === 'string' ? ['sh', '-c', command] : command;
    const { cwd, env, stdin, secrets, fence, limits, onStdout, onStderr, keepOutput = true } = options;
    const step = { command: program, args, env, stdin, secrets, fence, limits, raw: true };
    const result = await this.#execute({ step, ...options, keepOutput,
      deliver: ({ stream, text }) => (stream === 'stdout' ? onStdout : onStderr)?.(text) }, options.timeout, cwd);
    if (options.check && result.exitCode !== 0) throw new ExitCodeError(result.errorMessage ?? '', result);
    return result;
  }

  async #execute(request: Request, timeoutSeconds?: number, cwd?: string): Promise<StepResult> {
    const { step, signal } = request;
    if (signal?.aborted) throw new CancelledError('cancelled before it was sent', undefined, { cause: signal.reason });
    if (!Number.isFinite(timeoutSeconds ?? 0)) throw new RejectedError('timeout: expected a whole number');
    const fields: Pick<RunOptions, 'fence' | 'limits'> = step; // which an older agent would ignore
    const features = (['fence', 'limits'] as const).filter((name) => fields[name] != null);
    const reader = this.#readers.pop() ?? this.#connect();
    try {
      const [position, start] = await Promise.all([this.#job.newest(), this.#job.requireAgent(features)]);
      const workingDirectory = start && cwd && !cwd.startsWith('/') ? `${start}/${cwd}` : cwd;
      return await new Exchange(this.#job, reader, position,
        { ...request, step: { timeoutSeconds, workingDirectory, ...step } }).run();
    } finally {
      this.#readers.push(reader);
    }
  }

  /** Cancels a step that waits or runs, of any program. If no step has this id, nothing happens. */
  cancel(stepId: string): Promise<void> {
    return this.#job.control('cancel', stepId);
  }

  /** Whether the job has an agent that is alive. */
  async ping(): Promise<boolean> {
    return await this.#job.call('GET', 'heartbeat') !== null;
  }

  /** Stops the agent after the steps that wait. Does not wait for that. */
  async shutdown(): Promise<void> {
    const stepId = randomUUID();
    await this.#job.push(stepId, JSON.stringify({ schemaVersion: 1, kind: 'shutdown', stepId }), async () => {
      const end = performance.now() + EXIT_MS;
      while (await this.ping() && performance.now() < end) await sleep(50);
      return performance.now() < end;
    });
  }

  /** Closes the connections, which keep the process alive. Calls that wait fail; their steps continue. */
  close(): void {
    for (const connection of this.#connections) connection.close();
  }
}

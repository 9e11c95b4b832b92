import type { StepResult } from './core.js';

/** The base of all errors of this package. `result` has the output so far, if the step has a result. */
export class SandboxError extends Error {
  constructor(message: string, readonly result?: StepResult, options?: ErrorOptions) {
    super(message, options);
    this.name = new.target.name;
  }
}
/** The job has no heartbeat. The message says whether the step may have run. */
export class AgentGoneError extends SandboxError {}
/** Nothing ran: the step is invalid, its command or directory does not exist, the policy cannot be enforced, or the
 *  agent lacks a feature. */
export class RejectedError extends SandboxError {}
/** The step HAS RUN, without its sandbox policy: an older agent took the job over after `run` had looked, and took the
 *  step. `result` says how the step ended. */
export class PolicyIgnoredError extends SandboxError {}
/** The step exceeded its timeout. The agent has killed all of its processes. */
export class TimedOutError extends SandboxError {}
/** The step was cancelled, or its agent was stopped. `cause` is the reason of the signal. */
export class CancelledError extends SandboxError {}
/** The agent was killed, or Redis lost data. It is unknown how far the command came. */
export class InterruptedError extends SandboxError {}
/** Events were deleted before they were read: `result` lacks a part of the output. */
export class LinesLostError extends SandboxError {}
/** With `check`: the exit code is not 0. */
export class ExitCodeError extends SandboxError {}
/** A call of `files` failed, and changed nothing unless its description says otherwise. */
export class FileError extends SandboxError {}
/** The file or directory does not exist in the sandbox. */
export class FileNotFoundError extends FileError {}
/** Redis was away for 15 s, or refused a command or the login. A step that was pushed may still run. */
export class RedisGoneError extends SandboxError {}

export type { Denial, StepResult } from './core.js';
export * from './errors.js';
export type { FileEntry, Files, GrepMatch, GrepOptions } from './files.js';
export type { TlsOptions } from './redis.js';
export { type Fence, type Limits, type OutputHandler, type RunOptions, Sandbox, type StepOptions } from './sandbox.js';

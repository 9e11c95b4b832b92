import { randomUUID } from 'node:crypto';
import { lstat, mkdir, open, readdir, rename, rm, stat } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import type { StepResult } from './core.js';
import { AgentGoneError, FileError, FileNotFoundError, RedisGoneError, RejectedError } from './errors.js';
import type { StepOptions } from './sandbox.js';

/** The bytes of a readBytes or writeBytes, and the most of a file of writeBytes: a larger one is made of several. */
const PIECE = 4_194_304, PART = 6 * PIECE;
const USUAL_MODE = 0o644;
const APPEND = 'umask 077; cat "$1" >>"$2" && rm -f -- "$1"';
/** Works like writeBytes: follows a link, and keeps mode and owner, or else writes in place. */
const REPLACE = `t=$(readlink -f -- "$2" 2>/dev/null && echo x) && t=\${t%??} || t=$2
if [ -e "$t" ] && [ ! -f "$t" ]; then echo "is not a regular file: $2" >&2; exit 1; fi
o=$(stat -c %u:%g -- "$t" 2>/dev/null) && [ "$o" != "$(stat -c %u:%g -- "$1")" ] && ! chown "$o" "$1" 2>/dev/null &&
  { cat "$1" >"$t" && rm -f -- "$1"; exit; }
chmod "$(stat -c %a -- "$t" 2>/dev/null || echo 644)" "$1" && mv -f -- "$1" "$t"`;

/** `link` is the target of a symbolic link, `mode` is octal; both and the size are absent if they do not apply. */
export type FileEntry =
  { path: string; is_directory: boolean; size_bytes?: number; mtime?: string; mode?: string; link?: string };
export type GrepMatch = { path: string; line: number; text: string; kind: 'match' | 'context' };
export interface GrepOptions extends StepOptions {
  glob?: string;
  /** The most matches; 1000 by default. */
  limit?: number;
  /** Lines of context. */
  before?: number;
  after?: number;
  /** Whether to search hidden files, and files that the repository ignores. */
  hidden?: boolean;
}

/**
 * Files in the sandbox. A relative path is relative to `/work`, or to the agent's directory if there is no `/work`.
 * Options hold for each step of a call. `onStderr` gets remarks, such as `grep truncated at 1000 matches`.
 */
export class Files {
  constructor(private execute: (step: object, options: StepOptions) => Promise<StepResult>) {}

  async #do(kind: string, fields: object, options: StepOptions): Promise<string> {
    const result = await this.execute({ kind, ...fields }, options), message = result.errorMessage ?? '';
    if (result.exitCode === 0) return result.outputContent ?? '';
    throw new (/^(file|directory|path) not found/.test(message) ? FileNotFoundError : FileError)(message, result);
  }

  async #json<T>(kind: string, fields: object, options: StepOptions): Promise<T> {
    const answer = await this.#do(kind, fields, options);
    try {
      return JSON.parse(answer);
    } catch (cause) {
      throw new FileError(`the answer to ${kind} has a masked secret`, undefined, { cause });
    }
  }

  #run(options: StepOptions, command: string, ...args: string[]): Promise<string> {
    return this.#do('run', { command, args }, options);
  }

  /** Returns the text of a file of any size, without a byte order mark. Other bytes than UTF-8 are a FileError. */
  async read(path: string, options: StepOptions = {}): Promise<string> {
    const bytes = await this.readBytes(path, options);
    try {
      return new TextDecoder('utf-8', { fatal: true }).decode(bytes);
    } catch (cause) {
      throw new FileError(`is not UTF-8: ${path}`, undefined, { cause });
    }
  }

  /** Returns the content of a file of any size. If it changes meanwhile, its parts may not fit together. */
  async readBytes(path: string, options: StepOptions = {}): Promise<Uint8Array> {
    const pieces: Uint8Array[] = [];
    for await (const piece of this.#pieces(path, options)) pieces.push(piece);
    return Buffer.concat(pieces);
  }

  /** A file without a size, as in `/proc`, ends with a short piece. */
  async *#pieces(path: string, options: StepOptions): AsyncGenerator<Uint8Array> {
    for (let offset = 0, end = Infinity; offset < end;) {
      const fields = { path, offset, length: Math.min(PIECE, end - offset) };
      const { size, content } = await this.#json<{ size: number; content: string }>('readBytes', fields, options);
      const piece = Buffer.from(content, 'base64');
      if (piece.toString('base64') !== content) throw new FileError(`a secret in it is masked: ${path}`);
      yield piece;
      if (offset === 0 && size > PIECE) end = size;
      offset = piece.length < PIECE ? end : offset + PIECE;
    }
  }

  /**
   * Replaces a file, and makes missing directories. Readers see the old or the new content; an error leaves the old
   * one. More than 24 MiB need `sh`, `cat`, `chmod`, `mv` and `rm` in the image.
   */
  async write(path: string, content: string | Uint8Array, options: StepOptions = {}): Promise<void> {
    const bytes = Buffer.from(content as Uint8Array);
    await this.#write(path, bytes.length, (at) => bytes.subarray(at, at + PIECE), options);
  }

  async #write(path: string, size: number, piece: (at: number) => Buffer | Promise<Buffer>,
               options: StepOptions): Promise<void> {
    const hidden = `${path.slice(0, path.lastIndexOf('/') + 1)}.sandbox-${randomUUID()}`;
    const part = `${hidden}.part`, whole = `${hidden}.whole`, renameTo = size > PART ? undefined : path;
    try {
      for (let at = 0, isLast = false; !isLast; at += PIECE) {
        const content = (await piece(at)).toString('base64'), append = at % PART > 0;
        isLast = at + PIECE >= size;
        await this.#do('writeBytes', { path: part, content, append, renameTo: isLast ? renameTo : undefined }, options);
        if (size > PART && (isLast || (at + PIECE) % PART === 0))
          await this.#run(options, 'sh', '-c', APPEND, 'sh', part, whole);
      }
      if (size > PART) await this.#run(options, 'sh', '-c', REPLACE, 'sh', whole, path);
    } catch (error) {
      if (error instanceof AgentGoneError || error instanceof RedisGoneError) throw error;
      // A writeBytes that cannot rename its file removes it.
      await this.#do('writeBytes', { path: part, content: '', renameTo: '/' }, {}).catch(() => {});
      if (size > PART) await this.#run({}, 'rm', '-f', '--', whole).catch(() => {});
      throw error;
    }
  }

  /**
   * Replaces a text that occurs once in a file, or with `all` every occurrence, and returns a description. Changes
   * that others make at the same time are kept. An error leaves the file as it is.
   */
  edit(path: string, oldString: string, newString: string,
       options: StepOptions & { all?: boolean } = {}): Promise<string> {
    return this.#do('editFile', { path, edits: [{ oldString, newString, replaceAll: options.all }] }, options);
  }

  /** Lists the entries of a directory by name. */
  list(path = '.', options: StepOptions = {}): Promise<FileEntry[]> {
    return this.#json('listFiles', { path, allEntries: true }, options);
  }

  /** Searches a file or a directory for a PCRE2 pattern, line by line. Paths in the answer begin with `path`. */
  grep(pattern: string, path = '.', options: GrepOptions = {}): Promise<GrepMatch[]> {
    const { glob, limit, before, after, hidden = false } = options;
    return this.#json('grep', { pattern, path, glob, headLimit: limit, contextBefore: before, contextAfter: after,
      searchHidden: hidden, prefixPaths: true }, options);
  }

  /** Draws a directory, four levels deep by default. `exclude` has names to leave out. */
  tree(path = '.', options: StepOptions & { maxDepth?: number; exclude?: string[] } = {}): Promise<string> {
    return this.#do('directoryTree', { path, maxDepth: options.maxDepth, excludeGlobs: options.exclude }, options);
  }

  /** Whether there is something, even if the agent may not read it. */
  async exists(path: string, options: StepOptions = {}): Promise<boolean> {
    return this.#do('readBytes', { path, length: 1 }, options).then(() => true, (error) => {
      if (error instanceof FileError) return !(error instanceof FileNotFoundError);
      throw error;
    });
  }

  /**
   * Copies a local file or directory to `remote`, file by file. Modes are kept if the image has `chmod`; empty
   * directories need `mkdir`. Returns the local paths that were left out of a directory:
   * links, special files and names that are not UTF-8.
   */
  async upload(local: string, remote: string, options: StepOptions = {}): Promise<string[]> {
    const leftOut: string[] = [], queue = [{ from: local, to: remote }];
    for (const { from, to } of queue) {
      const status = await (from === local ? stat : lstat)(from);
      const names = status.isDirectory() ? await readdir(from) : [];
      for (const name of names)
        if (name.includes('\ufffd')) leftOut.push(join(from, name));
        else queue.push({ from: join(from, name), to: `${to}/${name}` });
      if (status.isFile()) await this.#uploadFile(from, to, status.mode & 0o777, options);
      else if (!status.isDirectory()) leftOut.push(from);
      else if (names.length === 0) await this.#run(options, 'mkdir', '-p', '--', to);
    }
    return leftOut;
  }

  async #uploadFile(from: string, to: string, mode: number, options: StepOptions): Promise<void> {
    const file = await open(from), buffer = Buffer.allocUnsafe(PIECE);
    try {
      await this.#write(to, (await file.stat()).size, async (at) =>
        buffer.subarray(0, (await file.read(buffer, 0, PIECE, at)).bytesRead), options);
    } finally {
      await file.close();
    }
    if (mode !== USUAL_MODE)
      await this.#run(options, 'chmod', '--', mode.toString(8), to).catch((error) => {
        if (!(error instanceof RejectedError)) throw error;
      });
  }

  /**
   * Copies a file or directory to `local`, file by file. Names and links of the sandbox are not trusted: nothing
   * outside of `local` is written. Returns the paths in the sandbox that were left out: links, special files, files
   * that cannot be read, and those whose local name belongs to a directory or, for a directory, to something else.
   */
  async download(remote: string, local: string, options: StepOptions = {}): Promise<string[]> {
    const leftOut: string[] = [], queue = [{ from: remote, to: local, mode: USUAL_MODE, isDirectory: true }];
    for (const { from, to, mode, isDirectory } of queue)
      try {
        const entries = isDirectory ? await this.#listUnlessFile(from, options) : undefined;
        if (entries === undefined) await save(to, mode, this.#pieces(from, options));
        else if (!await makeDirectory(to, to === local)) leftOut.push(from);
        else for (const { path, link, mode = '644', is_directory: isDirectory } of entries) {
          const name = path.slice(path.lastIndexOf('/') + 1);
          if (link !== undefined || !isPlainName(name)) leftOut.push(path);
          else queue.push({ from: path, to: join(to, name), mode: parseInt(mode, 8) & 0o777, isDirectory });
        }
      } catch (error) {
        const isOurs = error instanceof FileError || (error as NodeJS.ErrnoException).code === 'EISDIR';
        if (!isOurs || to === local) throw error;
        leftOut.push(from);
      }
    return leftOut;
  }

  async #listUnlessFile(path: string, options: StepOptions): Promise<FileEntry[] | undefined> {
    return this.list(path, options).catch((error) => {
      if (error instanceof FileError && error.message.startsWith('is a regular file')) return undefined;
      throw error;
    });
  }
}

/** Whether a name from the sandbox stays in its directory. */
export function isPlainName(name: string): boolean {
  return !['', '.', '..'].includes(name) && basename(name) === name && !name.includes('\0');
}

/** Returns false if the name belongs to something else. Only the first directory may be a link. */
async function makeDirectory(path: string, isFirst: boolean): Promise<boolean> {
  await mkdir(path, { recursive: isFirst }).catch(() => {}); // it may exist
  return (await (isFirst ? stat : lstat)(path)).isDirectory();
}

/** A reader sees the old file or the new one. A link is replaced, not followed. */
async function save(path: string, mode: number, pieces: AsyncIterable<Uint8Array>): Promise<void> {
  const part = join(dirname(path), `.sandbox-${randomUUID()}.part`), file = await open(part, 'wx', mode);
  try {
    for await (const piece of pieces) await file.appendFile(piece);
    await rename(part, path);
  } catch (error) {
    await rm(part, { force: true });
    throw error;
  } finally {
    await file.close();
  }
}

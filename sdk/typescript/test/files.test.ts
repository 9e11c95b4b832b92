import assert from 'node:assert/strict';
import * as fs from 'node:fs';
import { join } from 'node:path';
import { before, test } from 'node:test';
import * as sdk from 'sandbox-agent-redis';
import { isPlainName } from '../dist/files.js';
import { failure, newFile, sandbox, server, until, work } from './support.js';

const job = 'files', { files } = sandbox(job);

before(() => server.agent(job));

/** Bytes that are no text, and differ everywhere. */
function noise(length: number): Buffer {
  const bytes = Buffer.alloc(length);
  for (let i = 0, value = 1; i < length; i++) bytes[i] = (value = (value * 1103515245 + 12345) & 0x7fffffff) >> 16;
  return bytes;
}

test('a text is written and read, also with a byte order mark', async () => {
  const path = join(newFile('new'), 'directory', 'text');
  await files.write(path, 'häßlich\r\n');
  assert.equal(fs.readFileSync(path, 'utf8'), 'häßlich\r\n');
  assert.equal(await files.read(path), 'häßlich\r\n');
  await files.write(path, '\ufefftext');
  assert.equal(await files.read(path), 'text');
  await files.write(path, '');
  assert.equal(await files.read(path), '');
  assert.deepEqual(fs.readdirSync(join(work, 'new/directory')), ['text']);
});

for (const length of [4_194_304, 4_194_305, 25_165_824, 30_000_000])
  test(`${length} bytes are written and read`, async () => {
    const path = newFile(`bytes-${length}`), bytes = noise(length);
    fs.writeFileSync(path, 'old', { mode: 0o640 });
    await files.write(path, bytes);
    assert(bytes.equals(fs.readFileSync(path)));
    assert(bytes.equals(await files.readBytes(path)));
    assert.equal(fs.statSync(path).mode & 0o777, 0o640);
    assert.deepEqual(fs.readdirSync(work).filter((name) => name.startsWith('.sandbox')), []);
    fs.rmSync(path);
  });

test('a file of /proc is read', async () => {
  assert.match(await files.read('/proc/version'), /^Linux version /);
});

test('a missing file, a directory and bytes that are no text are errors', async () => {
  const path = newFile('bytes');
  const error = await failure(files.read(path), sdk.FileNotFoundError);
  assert.equal(error.message, `file not found: ${path}`);
  assert(error instanceof sdk.FileError);
  await failure(files.list(path), sdk.FileNotFoundError);
  await failure(files.grep('x', path), sdk.FileNotFoundError);
  await failure(files.read(work), sdk.FileError);
  await failure(files.write(work, 'text'), sdk.FileError);
  fs.writeFileSync(path, noise(1000));
  await failure(files.read(path), sdk.FileError);
});

for (const length of [5_000_000, 30_000_000])
  test(`a write of ${length} bytes that fails leaves the old file and no other`, async () => {
    const path = newFile(`failed-${length}`);
    fs.mkdirSync(path);
    const error = await failure(files.write(path, noise(length)), sdk.FileError);
    assert.match(error.message, /not a regular file/);
    assert.deepEqual(fs.readdirSync(work).filter((name) => name.startsWith('.sandbox')), []);
  });

test('a write that is cancelled leaves the old file and no other', async () => {
  const path = newFile('cancelled'), controller = new AbortController();
  fs.writeFileSync(path, 'old');
  const cancelled = failure(files.write(path, noise(30_000_000), { signal: controller.signal }), sdk.CancelledError);
  const others = () => fs.readdirSync(work).filter((name) => name.startsWith('.sandbox'));
  await until('first piece', () => others().length > 0);
  controller.abort();
  await cancelled;
  assert.deepEqual(others(), []);
  assert.equal(fs.readFileSync(path, 'utf8'), 'old');
});

test('edit replaces a text that occurs once, or all', async () => {
  const path = newFile('edited');
  await files.write(path, 'one two two\n');
  assert.match(await files.edit(path, 'one', 'three'), /^Edited .*edited \(1 change\)/);
  await failure(files.edit(path, 'two', 'four'), sdk.FileError);
  await files.edit(path, 'two', 'four', { all: true });
  assert.equal(await files.read(path), 'three four four\n');
});

test('list, grep, tree and exists describe a directory', async () => {
  const path = newFile('tree');
  fs.mkdirSync(join(path, 'sub'), { recursive: true });
  fs.writeFileSync(join(path, 'a.txt'), 'x\nneedle\ny\n', { mode: 0o600 });
  fs.writeFileSync(join(path, '.hidden'), 'needle\n');
  fs.symlinkSync('a.txt', join(path, 'link'));
  const entries = await files.list(path);
  assert.deepEqual(entries.map((entry) => [entry.path.slice(path.length + 1), entry.is_directory, entry.link]), [
    ['.hidden', false, undefined], ['a.txt', false, undefined], ['link', false, 'a.txt'], ['sub', true, undefined]]);
  assert.equal(entries[1]?.size_bytes, 11);
  assert.equal(entries[1]?.mode, '0600');
  assert.deepEqual(await files.grep('n..dle', path, { before: 1, glob: '*.txt' }), [
    { path: join(path, 'a.txt'), line: 1, text: 'x', kind: 'context' },
    { path: join(path, 'a.txt'), line: 2, text: 'needle', kind: 'match' }]);
  assert.equal((await files.grep('needle', path)).length, 1);
  assert.equal((await files.grep('needle', path, { hidden: true })).length, 2);
  let remarks = '';
  await files.grep('needle', path, { hidden: true, limit: 1, onStderr: (text) => { remarks += text; } });
  assert.equal(remarks, 'grep truncated at 1 matches\n');
  const tree = await files.tree(path, { exclude: ['sub'] });
  assert.equal(tree, 'tree/\n├── .hidden\n├── a.txt\n└── link');
  assert.equal(await files.exists(join(path, 'link')), true);
  assert.equal(await files.exists(path), true);
  assert.equal(await files.exists(join(path, 'missing')), false);
});

test('a file is uploaded and downloaded', async () => {
  const [local, remote, back] = [newFile('local'), newFile('remote'), newFile('back')];
  fs.writeFileSync(local, noise(5_000_000), { mode: 0o755 });
  assert.deepEqual(await files.upload(local, remote), []);
  assert.equal(fs.statSync(remote).mode & 0o777, 0o755);
  fs.writeFileSync(back, 'old');
  assert.deepEqual(await files.download(remote, back), []);
  assert(fs.readFileSync(local).equals(fs.readFileSync(back)));
  await failure(files.download(newFile('absent'), newFile('nothing')), sdk.FileNotFoundError);
  assert(!fs.existsSync(join(work, 'nothing')));
});

test('a directory is uploaded and downloaded, with modes and without links', async () => {
  const [local, remote, back] = [newFile('d'), newFile('d-remote'), newFile('d-back')];
  fs.mkdirSync(join(local, 'sub/empty'), { recursive: true });
  fs.writeFileSync(join(local, 'sub/run'), '#!/bin/sh\n', { mode: 0o755 });
  fs.writeFileSync(join(local, '-n\n"name'), 'odd');
  fs.symlinkSync('/etc', join(local, 'link'));
  assert.deepEqual(await files.upload(local, remote), [join(local, 'link')]);
  assert.deepEqual(await files.download(remote, back), []);
  assert.deepEqual(fs.readdirSync(back, { recursive: true }).sort(), ['-n\n"name', 'sub', 'sub/empty', 'sub/run']);
  assert.equal(fs.statSync(join(back, 'sub/run')).mode & 0o777, 0o755);
  assert.equal(fs.readFileSync(join(back, '-n\n"name'), 'utf8'), 'odd');
});

test('a download never leaves its directory', async () => {
  const [remote, local, outside] = [newFile('h-remote'), newFile('h-local'), newFile('outside')];
  for (const path of [join(remote, 'sub'), local, outside]) fs.mkdirSync(path, { recursive: true });
  fs.writeFileSync(join(remote, 'sub/file'), 'untrusted');
  fs.writeFileSync(join(remote, 'file'), 'untrusted');
  fs.symlinkSync('/etc', join(remote, 'directory-link'));
  fs.symlinkSync('/etc/passwd', join(remote, 'file-link'));
  fs.writeFileSync(Buffer.concat([Buffer.from(join(remote, 'not-utf-8-')), Buffer.from([0xff])]), '');
  fs.writeFileSync(join(outside, 'file'), 'mine');
  fs.symlinkSync(outside, join(local, 'sub')); // left by an earlier program
  fs.symlinkSync(join(outside, 'file'), join(local, 'file'));
  const leftOut = await files.download(remote, local);
  assert.deepEqual(leftOut.map((path) => path.slice(remote.length + 1)).sort(),
    ['directory-link', 'file-link', 'not-utf-8-\ufffd', 'sub']);
  assert.deepEqual(fs.readdirSync(outside), ['file']);
  assert.equal(fs.readFileSync(join(outside, 'file'), 'utf8'), 'mine');
  assert.equal(fs.readFileSync(join(local, 'file'), 'utf8'), 'untrusted');
  assert(!fs.lstatSync(join(local, 'file')).isSymbolicLink());
});

test('what has no place is left out', async () => {
  const [local, remote, back] = [newFile('p'), newFile('p-remote'), newFile('p-back')];
  for (const path of [local, join(remote, 'sub'), join(back, 'a')]) fs.mkdirSync(path, { recursive: true });
  fs.writeFileSync(Buffer.concat([Buffer.from(join(local, 'x')), Buffer.from([0xff])]), '');
  fs.writeFileSync(join(local, 'ok'), 'ok');
  assert.deepEqual(await files.upload(local, remote), [join(local, 'x\ufffd')]);
  fs.writeFileSync(join(remote, 'a'), 'a');
  fs.writeFileSync(join(back, 'sub'), 'kept');
  assert.deepEqual(await files.download(remote, back), [join(remote, 'a'), join(remote, 'sub')]);
  assert.deepEqual(fs.readdirSync(back, { recursive: true }).sort(), ['a', 'ok', 'sub']);
});

test('a large file has a name that ends with a newline', async () => {
  const path = newFile('line');
  fs.writeFileSync(path, 'kept');
  await files.write(`${path}\n`, Buffer.alloc(26_000_000));
  assert.equal(fs.readFileSync(path, 'utf8'), 'kept');
  assert.equal(fs.statSync(`${path}\n`).size, 26_000_000);
  fs.rmSync(`${path}\n`);
});

test('a name that an agent must not send is left out', () => {
  for (const name of ['', '.', '..', '../x', '/etc/passwd', 'a/b', 'a\0b']) assert(!isPlainName(name), name);
  for (const name of ['a', '...', '.hidden', '-rf', 'a\nb', 'a b', '~']) assert(isPlainName(name), name);
});

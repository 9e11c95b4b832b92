import assert from 'node:assert/strict';
import { test } from 'node:test';
import { LinesLostError, PolicyIgnoredError, RejectedError, SandboxError } from 'sandbox-agent-redis';
import { type Answer, type Entry, isBefore, StepRecord } from '../dist/core.js';

const event = (id: string, seq: number, kind: string, line: string, fields = {}): Entry =>
  [id, ['data', JSON.stringify({ stepId: 'step', kind, seq, line, ...fields })]];
const answer = (eventCount: number | null): Answer => ({ stepId: 'step', exitCode: 0, durationSeconds: 0,
  errorMessage: null, outputContent: null, eventCount, end: { cause: 'exited' } });
const newRecord = () => new StepRecord('step', '5-0', true, 0);

test('entry ids are ordered by their numbers', () => {
  assert(isBefore('9-0', '10-0'));
  assert(isBefore('10-9', '10-10'));
  assert(!isBefore('10-0', '10-0'));
  assert(!isBefore('18446744073709551615-18446744073709551615', '18446744073709551615-18446744073709551614'));
});

test('an event that is read twice is delivered once', () => {
  const record = newRecord(), entries = [event('6-0', 1, 'started', 'cmd'), event('6-1', 2, 'stdout', 'a')];
  assert.deepEqual([...record.accept(entries)], [{ stream: 'stdout', text: 'a\n' }]);
  assert.deepEqual([...record.accept(entries)], []);
  assert.equal(record.position, '6-1');
});

test('events that no agent writes are ignored', () => {
  const record = newRecord();
  const texts = ['true', '1e400', '"9"', '2.5', '[7]', '-1', '1e21', 'null'].map((seq) => `"seq":${seq},"line":"x"`);
  for (const text of texts) {
    const data = `{"stepId":"step","kind":"stdout",${text}}`;
    assert.deepEqual([...record.accept([['6-0', ['data', data]]])], []);
  }
  assert.deepEqual([...record.accept([event('6-1', 1, 'started', ''),
    ['6-2', ['data', '{"stepId":"step","kind":"stdout","seq":2,"line":5,"partial":true}']]])], []);
  assert.equal(record.seq, 2);
});

test('a result with figures that no agent writes is no crash', () => {
  for (const cause of ['constructor', 'toString', 5, null]) {
    const strange = { ...answer(0), eventCount: 'x', end: { cause } } as unknown as Answer;
    assert.equal(newRecord().conclude(strange, undefined).missing, 0);
  }
});

test('missing events are counted in the middle and at the end', () => {
  const record = newRecord();
  assert.equal([...record.accept([event('6-0', 1, 'started', ''), event('6-1', 4, 'stdout', 'a')])].length, 1);
  const check = (error: unknown) => error instanceof LinesLostError && error.result?.missing === 5 &&
    error.result.stdout === 'a\n';
  assert.throws(() => record.conclude(answer(7), undefined), check);
});

test('a step that needs a policy has run with it if its event `started` says so', () => {
  const run = (fields: object, cause: string) => {
    const record = new StepRecord('step', '5-0', true, 0, true);
    assert.equal([...record.accept([event('6-0', 1, 'started', '', fields)])].length, 0);
    const fence = { missing: ['signals'], denials: [{ access: 'network' as const, certain: false }] };
    return record.conclude({ ...answer(1), end: { cause }, fence }, undefined).fence?.missing;
  };
  assert.deepEqual(run({ fence: {} }, 'exited'), ['signals']);
  for (const cause of ['exited', 'timeout', 'lost']) assert.throws(() => run({}, cause), PolicyIgnoredError);
  assert.throws(() => run({}, 'refused'), RejectedError);
});

test('an unknown count of events, and an unknown cause, are no error', () => {
  const record = newRecord();
  assert.equal([...record.accept([event('6-0', 1, 'started', '')])].length, 0);
  assert.equal(record.conclude({ ...answer(null), end: { cause: 'new' } }, undefined).missing, 0);
});

test('a stream whose newest entry is older begins again, unless it is empty', () => {
  const record = newRecord();
  record.rewind('0-0');
  record.rewind('5-0');
  assert.equal(record.position, '5-0');
  record.rewind('4-9');
  assert.equal(record.position, '0-0');
});

test('a chunk that is being delivered is not acknowledged', () => {
  const record = newRecord();
  const chunks = record.accept([event('6-0', 1, 'started', ''), event('6-1', 2, 'stdout', ''),
    event('6-2', 3, 'stdout', '')]);
  chunks.next();
  assert.equal(record.acknowledge(250, false, false), 1);
  chunks.next();
  assert.equal(record.acknowledge(500, false, false), 2);
  chunks.next();
  assert.equal(record.acknowledge(750, false, false), 3);
});

test('an acknowledgement is due after 1,000 events, 250 ms or the end, and repeated if the reader is blocked', () => {
  const record = newRecord(), read = (first: number, last: number) => {
    const events = Array.from({ length: last - first + 1 }, (_, i) => event('6-0', first + i, 'stdout', 'x'));
    assert.equal([...record.accept(events)].length, events.length);
  };
  read(1, 999);
  assert.equal(record.acknowledge(249, false, false), undefined);
  assert.equal(record.acknowledge(250, false, false), 999);
  read(1000, 1998);
  assert.equal(record.acknowledge(251, false, false), undefined);
  read(1999, 1999);
  assert.equal(record.acknowledge(252, false, false), 1999);
  assert.equal(record.acknowledge(2251, true, false), undefined);
  assert.equal(record.acknowledge(2252, false, false), undefined);
  assert.equal(record.acknowledge(2252, true, false), 1999);
  record.acknowledged = 0; // it was not delivered
  assert.equal(record.acknowledge(2253, false, true), 1999);
  assert.equal(record.acknowledge(2254, false, true), undefined);
});

test('a file step that ends without a cause of failure has its answer', () => {
  const result = newRecord().conclude({ ...answer(0), outputContent: 'text' }, undefined);
  assert.equal(result.outputContent, 'text');
  assert(!((result as unknown) instanceof SandboxError));
});

'use strict';
const test = require('node:test');
const assert = require('node:assert');
const { once } = require('node:events');
const { setImmediate: turn } = require('node:timers/promises');
const { Records } = require('/app/ndjson.js');

// Writes the chunks, reads everything, and returns the records and the error's message.
async function read(chunks, options) {
  const stream = new Records(options);
  const records = [];
  const write = (async () => {
    for (const chunk of chunks) {
      if (stream.destroyed || stream.writableFinished) return;
      if (!stream.write(chunk)) await Promise.race(['drain', 'close'].map((e) => once(stream, e).catch(() => {})));
    }
    if (!stream.destroyed) stream.end();
  })();
  let problem = null;
  try {
    for await (const r of stream) records.push(r);
  } catch (e) {
    problem = e.message;
  }
  await write;
  return { records: records.map((r) => [r.line, r.value]), problem };
}

function pieces(text, size) {
  const bytes = Buffer.isBuffer(text) ? text : Buffer.from(text);
  const all = [];
  for (let at = 0; at < bytes.length; at += size) all.push(bytes.subarray(at, at + size));
  return all;
}

const cases = [
  ['"é😀漢"\r\n\r\n{"a":"\\n"}\n \t\r\nnull\nfalse\n0', {}, [[1, 'é😀漢'], [3, { a: '\n' }], [5, null], [6, false], [7, 0]], null],
  ['\ufeff1\n\ufeff2\n3', { onBad: 'skip' }, [[1, 1], [3, 3]], null],
  ['\ufeff1234\r\n1234\n12345\n', { maxLength: 4 }, [[1, 1234], [2, 1234]], 'line 3: too long'],
  ['1\n2\nnope\n4\n', {}, [[1, 1], [2, 2]], 'line 3: not JSON'],
  ['1\nnope', {}, [[1, 1]], 'line 2: not JSON'],
  ['1\n123456', { maxLength: 5 }, [[1, 1]], 'line 2: too long'],
  ['123\r\n1234\r\n12\r\r\n"é"\n"éé"\n1', { maxLength: 4, onBad: 'skip' }, [[1, 123], [2, 1234], [3, 12], [4, 'é'], [6, 1]], null],
  ['nope\n{\n99999\n\n1', { maxLength: 4, onBad: 'skip' }, [[5, 1]], null],
  ['     \n1', { maxLength: 4 }, [], 'line 1: too long'],
  ['1234\r', { maxLength: 4 }, [[1, 1234]], null],
  ['1\r2\n', {}, [], 'line 1: not JSON'],
  ['', {}, [], null],
  ['\n', {}, [], null],
  ['\u00a0\n', {}, [], 'line 1: not JSON'],
  [Buffer.from([0x31, 0x0a, 0x22, 0xc3, 0x22, 0x0a, 0x32]), { onBad: 'skip' }, [[1, 1], [3, 2]], null],
  [Buffer.from([0x22, 0xff, 0x22]), {}, [], 'line 1: not JSON'],
];

test('wherever it is cut', async () => {
  for (const [text, options, records, problem] of cases) {
    for (const size of [1, 2, 3, 5, 7, 1000]) {
      assert.deepStrictEqual(await read(pieces(text, size), options), { records, problem }, `${JSON.stringify(text)} in pieces of ${size}`);
    }
  }
});

test('random cuts', async () => {
  const values = Array.from({ length: 300 }, (_, i) => ({ i, text: 'añ😀'.repeat(i % 9), more: [null, i / 7] }));
  const text = Buffer.from(values.map((v) => JSON.stringify(v)).join('\n'));
  let seed = 7;
  const chunks = [];
  for (let at = 0; at < text.length; ) {
    seed = (seed * 1103515245 + 12345) % 2147483648;
    const size = 1 + (seed % 40);
    chunks.push(text.subarray(at, at + size));
    at += size;
  }
  assert.deepStrictEqual(await read(chunks), { records: values.map((v, i) => [i + 1, v]), problem: null });
});

test('all records before an error come out, however slowly they are read', async () => {
  const stream = new Records();
  stream.end('1\n'.repeat(100) + 'x\n5\n');
  const got = [];
  await assert.rejects(async () => {
    for await (const r of stream) {
      got.push(r.line);
      for (let i = 0; i < 5; i++) await turn();
    }
  }, { message: 'line 101: not JSON' });
  assert.strictEqual(got.length, 100);
});

test('a record is there when its line ends', async () => {
  const stream = new Records();
  stream.write('1\n2\n3');
  await turn();
  assert.deepStrictEqual([stream.read(), stream.read(), stream.read()], [{ line: 1, value: 1 }, { line: 2, value: 2 }, null]);
});

test('nothing is thrown out of write or end', async () => {
  for (const text of ['x\n', 'x', '"'.repeat(100)]) {
    const stream = new Records({ maxLength: 10 });
    const failed = once(stream, 'error');
    stream.resume();
    stream.write(text);
    stream.end();
    assert.match((await failed)[0].message, /^line 1: (not JSON|too long)$/);
  }
});

test('a line that is too long fails before its end, and is forgotten', async () => {
  const early = new Records({ maxLength: 1000 });
  early.resume();
  const failed = once(early, 'error');
  early.write('1\n' + 'x'.repeat(1100));
  assert.strictEqual((await failed)[0].message, 'line 2: too long');

  const stream = new Records({ maxLength: 1000, onBad: 'skip' });
  stream.resume();
  const chunk = Buffer.alloc(1 << 20, 0x78);
  global.gc();
  const before = process.memoryUsage();
  for (let i = 0; i < 300; i++) {
    if (!stream.write(chunk)) await once(stream, 'drain');
  }
  global.gc();
  const after = process.memoryUsage();
  assert.ok(after.arrayBuffers + after.heapUsed - before.arrayBuffers - before.heapUsed < 50e6, 'it keeps what it was given');
});

test('a line in a million pieces', async () => {
  const stream = new Records({ maxLength: 3e6 });
  const one = Buffer.from('1');
  const got = once(stream, 'data');
  stream.write('"');
  for (let i = 0; i < 1e6; i++) {
    if (!stream.write(one)) await once(stream, 'drain');
  }
  stream.end('"\n');
  assert.strictEqual((await got)[0].value.length, 1e6);
});

test('a slow reader slows down the writer', async () => {
  const stream = new Records();
  let written = 0;
  while (written < 100000 && stream.write('1\n')) {
    written++;
    if (written % 100 === 0) await turn();
  }
  assert.ok(written < 50000, `${written} lines were taken while nobody read`);
});

'use strict';
const test = require('node:test');
const assert = require('node:assert');
const { Readable } = require('node:stream');
const { pipeline } = require('node:stream/promises');
const { Records } = require('../ndjson.js');

async function read(chunks, options) {
  const got = [];
  await pipeline(Readable.from(chunks.map((c) => Buffer.from(c)), { objectMode: false }), new Records(options), async (records) => {
    for await (const r of records) {
      got.push(r);
    }
  });
  return got;
}

test('lines', async () => {
  assert.deepStrictEqual(await read(['{"a":1}\n[2]\n']), [{ line: 1, value: { a: 1 } }, { line: 2, value: [2] }]);
});

test('a record that comes in pieces', async () => {
  assert.deepStrictEqual(await read(['{"a"', ':1', '}\n"b', '"']), [{ line: 1, value: { a: 1 } }, { line: 2, value: 'b' }]);
});

test('a letter that comes in pieces', async () => {
  const text = Buffer.from('"é😀"\n');
  assert.deepStrictEqual(await read([...text].map((b) => [b])), [{ line: 1, value: 'é😀' }]);
});

test('null is a value', async () => {
  assert.deepStrictEqual(await read(['1\n\nnull\r\n  \r\n2']), [{ line: 1, value: 1 }, { line: 3, value: null }, { line: 5, value: 2 }]);
});

test('what is not JSON fails the stream', async () => {
  await assert.rejects(read(['1\n{\n3\n']), { message: 'line 2: not JSON' });
});

test('what is not JSON is left out if that was asked for', async () => {
  assert.deepStrictEqual(await read(['1\n{\n3\n'], { onBad: 'skip' }), [{ line: 1, value: 1 }, { line: 3, value: 3 }]);
});

'use strict';
// Records, one JSON value a line, out of a stream of bytes. Lines are put together as bytes, and become text when they
// are whole: so no letter is ever cut.
const { Transform } = require('node:stream');
const { TextDecoder } = require('node:util');

const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });
const NEWLINE = 0x0a;
const RETURN = 0x0d;

class Records extends Transform {
  constructor({ maxLength = 1024 * 1024, onBad = 'throw' } = {}) {
    super({ readableObjectMode: true });
    this.maxLength = maxLength;
    this.onBad = onBad;
    this.line = 1;
    this.begin();
  }

  begin() {
    this.pieces = []; // of the line that has no end yet
    this.length = 0;
    this.tooLong = false;
  }

  _transform(chunk, encoding, done) {
    try {
      let from = 0;
      for (let to; (to = chunk.indexOf(NEWLINE, from)) >= 0; from = to + 1) {
        this.add(chunk.subarray(from, to));
        this.endOfLine();
      }
      this.add(chunk.subarray(from));
      done();
    } catch (problem) {
      this.fail(problem, done);
    }
  }

  _flush(done) {
    try {
      if (this.length > 0 || this.tooLong) {
        this.endOfLine();
      }
      done();
    } catch (problem) {
      this.fail(problem, done);
    }
  }

  // An error destroys the stream, and with it what nobody has read yet: so it waits until everything was read.
  fail(problem, done) {
    const when = () => (this.readableLength === 0 || this.destroyed ? done(problem) : setImmediate(when));
    when();
  }

  add(bytes) {
    if (bytes.length === 0 || this.tooLong) {
      return;
    }
    // Many small pieces would cost more than their bytes: they are put together in larger and larger ones.
    const last = this.pieces.at(-1);
    if (last && last.used + bytes.length <= last.bytes.length) {
      bytes.copy(last.bytes, last.used);
      last.used += bytes.length;
    } else {
      const room = Buffer.allocUnsafe(Math.max(bytes.length, Math.min(Math.max(64, this.length), 65536)));
      bytes.copy(room);
      this.pieces.push({ bytes: room, used: bytes.length });
    }
    this.length += bytes.length;
    // A byte more, a \r, may belong to the end of the line; and a byte order mark does not count.
    const whole = this.length - (this.line === 1 ? this.mark().length : 0);
    if (whole > this.maxLength + 1 || (whole > this.maxLength && this.lastByte() !== RETURN)) {
      this.pieces = [];
      this.tooLong = true;
      this.bad('too long');
    }
  }

  lastByte() {
    const last = this.pieces.at(-1);
    return last.bytes[last.used - 1];
  }

  // The byte order mark at the beginning of the line, if it has one.
  mark() {
    const head = Buffer.concat(this.pieces.slice(0, 3).map((p) => p.bytes.subarray(0, Math.min(p.used, 3)))).subarray(0, 3);
    return head.equals(Buffer.from([0xef, 0xbb, 0xbf])) ? head : Buffer.alloc(0);
  }

  endOfLine() {
    if (!this.tooLong) {
      let bytes = Buffer.concat(this.pieces.map((p) => p.bytes.subarray(0, p.used)));
      if (this.line === 1) {
        bytes = bytes.subarray(this.mark().length);
      }
      if (bytes.at(-1) === RETURN) {
        bytes = bytes.subarray(0, -1);
      }
      if (bytes.length > this.maxLength) {
        this.bad('too long');
      } else {
        this.record(bytes);
      }
    }
    this.line++;
    this.begin();
  }

  record(bytes) {
    let value;
    try {
      const text = utf8.decode(bytes);
      if (/^[ \t\r]*$/.test(text)) {
        return;
      }
      value = JSON.parse(text);
    } catch {
      this.bad('not JSON');
      return;
    }
    this.push({ line: this.line, value });
  }

  bad(what) {
    if (this.onBad !== 'skip') {
      throw new Error(`line ${this.line}: ${what}`);
    }
  }
}

module.exports = { Records };

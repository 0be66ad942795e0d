'use strict';
// Records, one JSON value a line, out of a stream of bytes.
const { Transform } = require('node:stream');

class Records extends Transform {
  constructor({ maxLength = 1024 * 1024, onBad = 'throw' } = {}) {
    super({ readableObjectMode: true });
    this.maxLength = maxLength;
    this.onBad = onBad;
    this.rest = '';
    this.line = 0;
  }

  _transform(chunk, encoding, done) {
    const lines = (this.rest + chunk.toString()).split('\n');
    this.rest = lines.pop();
    for (const line of lines) {
      this.record(line);
    }
    done();
  }

  _flush(done) {
    this.record(this.rest);
    done();
  }

  record(text) {
    this.line++;
    if (text.length > this.maxLength) {
      throw new Error(`line ${this.line}: too long`);
    }
    if (text) {
      try {
        this.push({ line: this.line, value: JSON.parse(text) });
      } catch {
        if (this.onBad === 'throw') {
          throw new Error(`line ${this.line}: not JSON`);
        }
      }
    }
  }
}

module.exports = { Records };

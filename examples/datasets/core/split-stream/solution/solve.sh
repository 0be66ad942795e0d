#!/bin/bash
# Lines of bytes first, text when they are whole, and errors through the stream.
set -euo pipefail
cp /oracle/ndjson.js /app/ndjson.js
node --test /app/test

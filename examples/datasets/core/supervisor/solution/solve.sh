#!/bin/bash
# A loop that waits for signals, with every service in a session of its own.
set -euo pipefail
install -m 755 /oracle/supervise /app/supervise
mkdir -p /tmp/state
printf 'hello: echo hello\n' > /tmp/conf
/app/supervise /tmp/conf /tmp/state
cat /tmp/state/hello.log

#!/bin/bash
# Waiting in loops, a condition for each kind of waiting, everybody woken at the end, and locks in one order.
set -euo pipefail
cp /oracle/queue.c /app/queue.c
gcc -std=gnu11 -Wall -Wextra -Werror -pthread -o /tmp/example /app/example.c /app/queue.c -I /app
/tmp/example

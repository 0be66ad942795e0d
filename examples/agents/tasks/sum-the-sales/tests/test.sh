#!/bin/bash
# The number may end with a newline, or not.
if [ "$(cat /app/total.txt)" = 42 ]; then
  echo "1 of 1 checks passed"
  echo 1 >/logs/verifier/reward.txt
else
  echo "0 of 1 checks passed: total.txt is not 42"
  echo 0 >/logs/verifier/reward.txt
fi

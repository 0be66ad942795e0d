#!/bin/bash
cd /app/src
[ "$CI" = true ] && grep -q 'list.length - 1' last.js
test_status=$?
if [ $test_status -eq 0 ]; then
  echo 1 > /logs/verifier/reward.txt
else
  echo 0 > /logs/verifier/reward.txt
fi
exit "$test_status"

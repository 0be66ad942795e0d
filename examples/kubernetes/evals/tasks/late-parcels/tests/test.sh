#!/bin/bash
if diff <(printf '%s\n' Abe Castro Moreau Okafor) /app/late; then
  passed=1
else
  passed=0
fi
echo "$passed of 1 check passed"
echo "$passed" > /logs/verifier/reward.txt

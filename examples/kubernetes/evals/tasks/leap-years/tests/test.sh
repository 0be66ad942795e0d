#!/bin/bash
# 2000 was one; 1900 was not, and 2100 will not be.
if diff <(seq 1904 4 2096) /root/leap-years; then
  passed=1
else
  passed=0
fi
echo "$passed of 1 check passed"
echo "$passed" > /logs/verifier/reward.txt

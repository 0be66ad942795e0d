#!/bin/bash
# The checks are in check.py, which writes the reward; it is 0 if they do not come to their end.
set -u
echo 0 > /logs/verifier/reward.txt
timeout 540 python3 /tests/check.py || echo "the checks were cut short"
exit 0

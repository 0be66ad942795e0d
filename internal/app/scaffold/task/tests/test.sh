#!/bin/bash
# Looks at what the agent left, and writes the reward: 1 for success, 0 for failure, or something between. Must end with exit code 0.
# What it prints is shown where the reward is below 1, so let it say what is wrong.
set -uo pipefail
echo 0 > /logs/verifier/reward.txt # also if something below fails

echo "tests/test.sh is to be written"
# if [ "$(cat /app/answer.txt)" = 42 ]; then
#   echo 1 > /logs/verifier/reward.txt
# else
#   echo "/app/answer.txt is missing or wrong"
# fi

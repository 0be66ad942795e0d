#!/bin/bash
# Writes the reward: 1 for success, 0 for failure. Must end with exit code 0.
if [ "$(cat /app/hello.txt)" = "Hello, world!" ]; then
  echo "hello.txt is right"
  echo 1 > /logs/verifier/reward.txt
else
  echo "hello.txt is missing or wrong"
  echo 0 > /logs/verifier/reward.txt
fi

#!/bin/bash
if [ "$PWD" = "/" ]; then
  echo "set a WORKDIR in the Dockerfile"
  exit 1
fi
[ "$(cat errors.log 2>/dev/null)" = "$(cat /tests/expected.log)" ]
if [ $? -eq 0 ]; then
  echo 1 > /logs/verifier/reward.txt
else
  echo 0 > /logs/verifier/reward.txt
fi

#!/bin/bash
# Makes the change as its author made it: change.patch shows it. Written by rollout mine.
set -euo pipefail
cd /app
while IFS= read -r file; do
  rm -f "./$file"
done < /oracle/removed.txt
cp -R /oracle/_files/. /app/

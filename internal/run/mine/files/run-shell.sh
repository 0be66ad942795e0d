#!/bin/bash
# Runs each script in the file $2 with bash and writes the names of those that end with 0 into the
# file $1.
set -uo pipefail
cd "/app/$(cat /tests/project.txt)" || exit 1
while IFS= read -r target; do
  if bash "./$target" < /dev/null; then
    echo "$target" >> "$1"
  else
    echo "failed: $target"
  fi
done < "$2"

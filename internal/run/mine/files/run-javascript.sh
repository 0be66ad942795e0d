#!/bin/bash
# Runs the test files in the file $2 with node --test and writes the names of the tests that pass
# into the file $1. A name that passes in one place of a file and fails in another does not count.
# The lines of command.txt after the first one are options of node.
set -uo pipefail
cd "/app/$(cat /tests/project.txt)" || exit 1
mapfile -t words < /tests/command.txt
while IFS= read -r target; do
  node "${words[@]:1}" --test --test-reporter=tap "./$target" > "$1.tap" 2>&1 < /dev/null
  cat "$1.tap"
  sed -n 's/^ *not ok [0-9]* - //p' "$1.tap" | sed 's/ # .*//' | LC_ALL=C sort -u > "$1.failed"
  sed -n 's/^ *ok [0-9]* - //p' "$1.tap" | grep -v -e ' # SKIP' -e ' # TODO' | LC_ALL=C sort -u |
    LC_ALL=C comm -23 - "$1.failed" | while IFS= read -r name; do echo "$target: $name"; done >> "$1"
done < "$2"

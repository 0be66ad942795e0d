#!/bin/bash
# Runs the targets of cargo test in the file $2, such as "--test parser", and writes the names of the
# tests that pass into the file $1. Only names that the program of the tests lists count: other lines
# that look like results were printed by a test.
set -uo pipefail
cd "/app/$(cat /tests/project.txt)" || exit 1
export CARGO_TERM_COLOR=never
while IFS= read -r target; do
  read -r -a words <<< "$target"
  cargo test "${words[@]}" -- --list < /dev/null 2> "$1.err" | sed -n 's/: test$//p' | LC_ALL=C sort -u > "$1.list"
  cargo test --no-fail-fast "${words[@]}" < /dev/null > "$1.out" 2>&1
  tail -c 1000000 "$1.out"
  awk -v passed="$1.passed" -v failed="$1.failed" '
    BEGIN { printf "" > passed; printf "" > failed }
    /^running [0-9]+ tests?$/ { on = 1; next }
    /^failures:$/ || /^test result: / { on = 0 }
    on && /^test .* \.\.\. (ok|FAILED)$/ {
      name = $2
      if ($NF == "ok") print name > passed; else print name > failed
    }' "$1.out"
  for of in passed failed; do LC_ALL=C sort -u -o "$1.$of" "$1.$of"; done
  LC_ALL=C comm -12 "$1.list" "$1.passed" | LC_ALL=C comm -23 - "$1.failed" |
    while IFS= read -r name; do echo "${words[*]: -1} $name"; done >> "$1"
done < "$2"

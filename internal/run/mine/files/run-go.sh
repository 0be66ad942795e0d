#!/bin/bash
# Runs the packages in the file $2 and writes the names of the tests that pass into the file $1.
set -uo pipefail
cd "/app/$(cat /tests/project.txt)" || exit 1
mapfile -t targets < "$2"
go test -json -count=1 "${targets[@]}" > "$1.json"
sed -n 's/^{"Time":"[^"]*","Action":"pass","Package":"\([^"]*\)","Test":"\(.*\)","Elapsed":.*/\1 \2/p' "$1.json" | LC_ALL=C sort -u > "$1"
sed -n 's/^{"Time":"[^"]*","Action":"\(fail\|skip\)","Package":"\([^"]*\)".*/\1 \2/p' "$1.json"

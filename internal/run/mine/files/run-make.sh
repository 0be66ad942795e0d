#!/bin/bash
# Runs make test and writes the names of the tests that pass into the file $1: those in JUnit XML that
# it wrote, in lines of TAP ("ok 1 - name"), of automake ("PASS: name") and of ctest. If it ends with
# 0 and names no test, the file unnamed.txt says so.
set -uo pipefail
cd "/app/$(cat /tests/project.txt)" || exit 1
touch "$1.begun"
sleep 0.1 # so that what make writes is newer
make test > "$1.out" 2>&1 < /dev/null
status=$?
tail -c 1000000 "$1.out"
{
  find . -name '*.xml' -type f -newer "$1.begun" -size -32768 | LC_ALL=C sort | head -n 1000 |
    while IFS= read -r report; do awk -f /tests/junit.awk "$report"; done
  sed -n -E \
    -e '/^(not )?ok [0-9]+.* # (SKIP|TODO)/d' \
    -e 's/^ok [0-9]+ -? ?(.+)$/passed \1/p' -e 's/^not ok [0-9]+ -? ?(.+)$/failed \1/p' \
    -e 's/^PASS: (.+)$/passed \1/p' -e 's/^(FAIL|ERROR|XPASS): (.+)$/failed \2/p' \
    -e 's/^ *[0-9]+\/[0-9]+ Test +#[0-9]+: ([^ ]+) \.+ +Passed .*$/passed \1/p' \
    -e 's/^ *[0-9]+\/[0-9]+ Test +#[0-9]+: ([^ ]+) \.*\*\*\*.*$/failed \1/p' "$1.out"
} > "$1.results"
sed -n 's/^failed //p' "$1.results" | LC_ALL=C sort -u > "$1.failed"
sed -n 's/^passed //p' "$1.results" | LC_ALL=C sort -u | LC_ALL=C comm -23 - "$1.failed" > "$1"
if [ "$status" = 0 ] && [ ! -s "$1.results" ]; then
  echo 'make test ends with 0 and names no test' > "$(dirname "$1")/unnamed.txt"
fi

#!/bin/bash
# Runs the test classes in the file $2 with Maven, without a network, and writes the names of the tests
# that pass into the file $1: the class and the name in surefire's JUnit XML. command.txt, if it exists,
# has more words for Maven.
set -uo pipefail
cd "/app/$(cat /tests/project.txt)" || exit 1
words=()
[ -e /tests/command.txt ] && mapfile -t words < /tests/command.txt
mapfile -t targets < "$2"
simple=("${targets[@]##*.}") # old versions of surefire know no other names
classes=$(IFS=,; echo "${simple[*]}")
find . -path '*/surefire-reports/TEST-*.xml' -delete
mvn -B -o -Dstyle.color=never -Dmaven.test.failure.ignore=true -Dtest="$classes" -DfailIfNoTests=false \
  -Dsurefire.failIfNoSpecifiedTests=false ${words[@]+"${words[@]}"} test > "$1.out" 2>&1 < /dev/null
tail -c 1000000 "$1.out"
: > "$1.results"
find . -path '*/surefire-reports/TEST-*.xml' -type f -size -32768 | LC_ALL=C sort | head -n 1000 |
  while IFS= read -r report; do awk -f /tests/junit.awk "$report"; done > "$1.results"
sed -n 's/^failed //p' "$1.results" | LC_ALL=C sort -u > "$1.failed"
sed -n 's/^passed //p' "$1.results" | LC_ALL=C sort -u | LC_ALL=C comm -23 - "$1.failed" |
  awk 'NR == FNR { wanted[$0]; next }
    { class = $1; sub(/\$.*/, "", class)
      for (name in wanted) if (class == name || substr(class, length(class) - length(name)) == "." name) { print; next } }' \
    "$2" - > "$1"

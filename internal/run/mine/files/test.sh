#!/bin/bash
# Puts the tests of the change into /app, runs them and those near it, and gives 1 if each name in
# names.txt and near_names.txt passes.
# Tests with other names do not count. Written by rollout mine.
set -uo pipefail
echo 0 > /logs/verifier/reward.txt
passed=/logs/verifier/passed.txt
near=/logs/verifier/near.txt
: > "$passed"
: > "$near"
cd /app || exit 0
while IFS= read -r file; do # those of the change win over what is there, also over links
  rm -rf "./$file"
done < /tests/replaced.txt
cp -R /tests/_files/. /app/ || exit 0
bash /tests/run.sh "$passed" /tests/targets.txt
if [ -s /tests/near.txt ]; then # tests near the change, which it leaves alone
  bash /tests/run.sh "$near" /tests/near.txt
fi
if [ ! -s /tests/names.txt ]; then # rollout mine is still looking for the names
  exit 0
fi
missing=$(grep -vxF -f "$passed" /tests/names.txt)
case $? in
0) printf 'These tests did not pass:\n%s\n' "$missing"; exit 0 ;;
1) ;;
*) exit 0 ;;
esac
missing=$(grep -vxF -f "$near" /tests/near_names.txt)
case $? in
0) printf 'These tests near the change do not pass any more:\n%s\n' "$missing" ;;
1) echo 1 > /logs/verifier/reward.txt ;;
esac
exit 0

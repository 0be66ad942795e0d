#!/bin/bash
set -u
passed=0 total=2
check() { # WHAT: as the last command went
  if [ $? -eq 0 ]; then
    passed=$((passed + 1))
    echo "ok   $1"
  else
    echo "FAIL $1"
  fi
}

cd /app/steps || exit 1
diff=$(comm -3 <(printf '%s\n' * | sort) <(sort /app/order))
[ -z "$diff" ]
check "every step stands there, once"

declare -A done=()
early=
while read -r step; do
  [ -f "$step" ] || continue
  while read -r need; do
    [ -n "${done[$need]-}" ] || early+=" $step"
  done < "$step"
  done[$step]=yes
done < /app/order
[ -f /app/order ] && [ -z "$early" ]
check "no step comes too early:${early:- none does}"

echo "$passed of $total checks passed"
echo $((passed == total)) > /logs/verifier/reward.txt

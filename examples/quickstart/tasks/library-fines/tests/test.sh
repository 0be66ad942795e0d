#!/bin/bash
# Each rule is checked by loans that need no other one.
set -u
passed=0 total=0
# owes RULE TODAY LOAN WANT [LOAN WANT]...
owes() {
  local rule=$1 today=$2 loans=() want=() got
  shift 2
  while [ $# -gt 0 ]; do
    loans+=("$1") want+=("$2")
    shift 2
  done
  got=$(/app/fines <(printf '%s\n' "${loans[@]}") "$today")
  total=$((total + 1))
  if [ "$got" = "$(printf '%s\n' "${want[@]}")" ]; then
    passed=$((passed + 1))
    echo "ok   $rule"
  else
    echo "FAIL $rule"
    printf '     loan   %s\n' "${loans[@]}"
    printf '     wanted %s\n' "${want[@]}"
    echo "     got    ${got//$'\n'/$'\n'            }"
  fi
}
owes "every day costs 0.20" 2027-01-01 \
  "2026-02-27 2026-03-01 A Room of One's Own" "0.40 A Room of One's Own" \
  "2028-02-27 2028-03-01 *" "0.60 *" \
  "2025-12-31 2026-02-09 Nana" "8.00 Nana"
owes "on time is free" 2027-01-01 \
  "2026-02-27 2026-02-27 Emma" "0.00 Emma" \
  "2026-02-27 2024-02-01 Walden" "0.00 Walden"
owes "a book that did not come back counts to today" 2026-03-08 \
  "2026-03-01 - Moby Dick" "1.40 Moby Dick"
owes "never more than 10.00" 2027-01-01 \
  "2026-01-01 2026-02-20 Middlemarch" "10.00 Middlemarch" \
  "2026-01-01 2026-02-21 Ulysses" "10.00 Ulysses" \
  "1999-01-01 2026-02-21 Dracula" "10.00 Dracula"
echo "$passed of $total checks passed"
echo "$((passed / total)).$((passed % total * 100 / total))" > /logs/verifier/reward.txt

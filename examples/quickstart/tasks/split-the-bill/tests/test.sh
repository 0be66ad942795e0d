#!/bin/bash
set -u
passed=0 total=0
# pays WANT AMOUNT NAME...: WANT is the lines, with a comma between them.
pays() {
  local want=$1 got
  shift
  got=$(/app/split "$@" | paste -sd ,)
  total=$((total + 1))
  if [ "$got" = "$want" ]; then
    passed=$((passed + 1))
    echo "ok   $*"
  else
    echo "FAIL $*: got '$got', wanted '$want'"
  fi
}
pays "Ann 3.34,Bo 3.33,Cy 3.33" 10.00 Ann Bo Cy
pays "Ann 5.00,Bo 5.00" 10.00 Ann Bo
pays "Ann 0.09" 0.09 Ann
pays "Ann 0.01,Bo 0.01,Cy 0.00" 0.02 Ann Bo Cy
pays "Ann 3.02,Bo 3.02,Cy 3.02,Di 3.02,Ed 3.01" 15.09 Ann Bo Cy Di Ed
pays "Ann 500000.04,Bo 500000.04" 1000000.08 Ann Bo
echo "$passed of $total checks passed"
echo $((passed == total)) > /logs/verifier/reward.txt

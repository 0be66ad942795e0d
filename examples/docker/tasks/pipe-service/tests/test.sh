#!/bin/bash
# Uses the service that the agent left running, then kills it and starts it again. All or nothing.
set -u
passed=0 total=0 work=$(mktemp -d)
cd "$work" || exit 1

# check NAME FUNCTION: one check. The function fails with its first command.
check() {
  total=$((total + 1))
  (set -e; "$2") > output 2>&1
  if [ $? -eq 0 ]; then
    passed=$((passed + 1))
    echo "ok   $1"
  else
    echo "FAIL $1"
    head -n 20 output | sed 's/^/     | /'
  fi
}

# send LINE: writes it to the service, without waiting forever where nobody reads.
send() { timeout 10 bash -c '[ -p /srv/tally/in ] && printf "%s\n" "$1" > /srv/tally/in' send "$1"; }

# ask REQUEST: prints the answer.
ask() {
  local reply=$work/reply.$BASHPID
  mkfifo "$reply"
  if ! send "$reply $1"; then
    echo "nobody took the request"
  elif ! timeout 10 head -n 1 "$reply"; then
    echo "no answer"
  fi
  rm -f "$reply"
}

# is WANT REQUEST: the answer is WANT.
is() {
  local got
  got=$(ask "$2")
  [ "$got" = "$1" ] || { echo "$2: wanted $1, got $got"; return 1; }
}

alive() {
  pid=$(cat /srv/tally/pid)
  kill -0 "$pid"
  echo "$pid" > first.pid
}

counting() {
  is 0 'get fresh'
  is 1 'add visits 1'
  is 42 'add visits 41'
  is 39 'add visits -3'
  is -5 'add other.name_1-x -5'
  is 39 'get visits'
  is 49 'add visits 010'
  is 9000000049 'add visits 9000000000'
}

errors() {
  local request
  for request in 'add visits' 'add visits one' 'add visits 1 2' 'add visits 1.5' 'add visits $(touch pwned)' \
    'add x[$(touch/pwned)] 1' 'add a/b 1' 'get' 'get visits now' 'get *' 'drop visits' ''; do
    is error "$request"
  done
  is 9000000049 'get visits'
}

odd_replies() {
  echo untouched > file
  send "$work/file get visits"
  send "$work/missing get visits"
  send "$work get visits"
  send ""
  is 9000000049 'get visits'
  sleep 0.1
  [ "$(cat file)" = untouched ]
  [ ! -e missing ]
}

deserters() {
  local n
  for n in 1 2 3; do
    mkfifo "deserted.$n"
    send "$work/deserted.$n add deserted 1"
  done
  is 4 'add deserted 1'
}

crowd() {
  local n m
  for n in {1..25}; do
    for m in 1 2 3 4; do
      answer=$(ask 'add crowd 1')
      echo "$answer"
      case $answer in *[!0-9]*) break ;; esac
    done > "crowd.$n" &
  done
  wait
  is 100 'get crowd'
  sort -n crowd.[0-9]* | diff - <(seq 100) # everyone got an answer of their own
}

same_service() {
  timeout 30 /srv/tally/start > /dev/null
  [ "$(cat /srv/tally/pid)" = "$(cat first.pid)" ]
  kill -0 "$(cat first.pid)"
  is 9000000049 'get visits'
}

killed() {
  mkfifo pending
  send "$work/pending add visits 1"
  is 9000000051 'add visits 1'
  kill -9 "$(cat first.pid)"
  while kill -0 "$(cat first.pid)" 2> /dev/null && ! grep -q '^State:.Z' "/proc/$(cat first.pid)/status"; do sleep 0.01; done
  timeout 30 /srv/tally/start > /dev/null
  [ "$(cat /srv/tally/pid)" != "$(cat first.pid)" ]
  kill -0 "$(cat /srv/tally/pid)"
  is 9000000051 'get visits'
  is 101 'add crowd 1'
  is -5 'get other.name_1-x'
}

check "the service is still there" alive
check "it counts" counting
check "it refuses other requests" errors
check "it answers to named pipes only" odd_replies
check "scripts that do not read their answer hold up nobody" deserters
check "25 scripts at once" crowd
check "start leaves a running service alone" same_service
check "tallies survive kill -9" killed

echo "$passed of $total checks passed"
if [ "$passed" -eq "$total" ]; then echo 1; else echo 0; fi > /logs/verifier/reward.txt

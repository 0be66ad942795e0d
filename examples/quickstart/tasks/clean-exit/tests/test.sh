#!/bin/bash
set -u
passed=0 total=0 lock=/app/worker.lock
check() { # WHAT: as the last command went
  local good=$?
  total=$((total + 1))
  if [ $good -eq 0 ]; then
    passed=$((passed + 1))
    echo "ok   $1"
  else
    echo "FAIL $1"
  fi
}
locked() { [ "$(cat "$lock" 2> /dev/null)" = "$worker" ]; }
# begin: starts a worker, its id in $worker, and waits until it has the lock.
begin() {
  # In the background bash lets commands ignore SIGINT, and whoever ignores it from the start cannot trap it.
  env --default-signal=INT /app/worker &> /dev/null &
  worker=$!
  local n
  for n in {1..400}; do
    if locked || ! kill -0 "$worker" 2> /dev/null; then return; fi
    sleep 0.05
  done
}
# end SIGNAL: sends it, and returns how the worker ended, which bash would tell on stderr.
end() {
  kill -s "$1" "$worker"
  local n
  for n in {1..400}; do
    kill -0 "$worker" || break
    sleep 0.05
  done
  kill -9 "$worker"
  wait "$worker"
} 2> /dev/null

if [ -x /app/worker ]; then
  for signal in TERM INT; do
    begin
    locked
    check "the lock holds its process id"
    end $signal
    check "SIG$signal ends it with 0"
    [ ! -e "$lock" ]
    check "and the lock is gone"
  done

  begin
  timeout 10 /app/worker 2> /tmp/complaint
  [ $? -eq 1 ] && [ -s /tmp/complaint ]
  check "a second one refuses to start, and says so"
  locked && kill -0 "$worker"
  check "the first one is still at work"

  end KILL
  begin
  locked
  check "a lock that was left behind is no obstacle"
  end KILL
else
  total=1
  echo "FAIL there is no executable /app/worker"
fi
echo "$passed of $total checks passed"
echo $((passed == total)) > /logs/verifier/reward.txt

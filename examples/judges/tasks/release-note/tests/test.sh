#!/bin/bash
# What can be counted: whether there is a note, how long it is, and that it names no tickets.
note=/app/NOTE.md
lines=$(grep -c . "$note" 2>/dev/null)
if [ "${lines:-0}" -ge 1 ] && [ "$lines" -le 3 ] && ! grep -q 'APP-' "$note"; then
  echo "1 of 1 checks passed"
  echo 1 >/logs/verifier/reward.txt
else
  echo "0 of 1 checks passed: there is no note, it is too long, or it names tickets"
  echo 0 >/logs/verifier/reward.txt
fi

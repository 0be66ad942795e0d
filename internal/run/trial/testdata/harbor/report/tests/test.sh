#!/bin/bash
part() { [ "$(cat "report/$1" 2>/dev/null)" = "$2" ] && echo 1.0 || echo 0.0; }
printf '{"title": %s, "total": %s}\n' "$(part title.txt Sums)" "$(part total.txt 3)" > /logs/verifier/reward.json
echo "judged by $JUDGE"
exit 7

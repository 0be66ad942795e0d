# at most: 0
# A loop for each service, in the background of a shell.
cat > /app/supervise <<'END'
#!/bin/bash
cd "$(dirname "$1")"
state=$2
trap 'kill -- $(jobs -p) 2> /dev/null; wait; exit 0' TERM INT
while IFS= read -r line; do
  case $line in '' | '#'*) continue ;; *:*) ;; *) echo "what is $line" >&2; exit 2 ;; esac
  name=${line%%:*}
  (
    for n in 1 2 3 4 5; do
      echo running > "$state/$name.status"
      setsid sh -c "${line#*:}" < /dev/null >> "$state/$name.log" 2>&1 &
      echo $! > "$state/$name.pid"
      trap "kill -- -$!" TERM
      if wait $!; then rm "$state/$name.pid"; echo done > "$state/$name.status"; exit 0; fi
      rm "$state/$name.pid"
    done
    echo failed > "$state/$name.status"
    exit 1
  ) &
done < "$1"
code=0
for job in $(jobs -p); do wait $job || code=1; done
exit $code
END
chmod +x /app/supervise

#!/bin/bash
set -euo pipefail

cat > /app/report <<'REPORT'
#!/bin/bash
# Usage: report FOLDER
set -euo pipefail
export LC_ALL=C

read_logs() {
  local file
  for file in "$1"/access.log*; do
    case $file in
      *'*') ;; # no log at all
      *.gz) gzip -dc -- "$file" ;;
      *) cat -- "$file" ;;
    esac
  done
}

read_logs "$1" | awk '
  BEGIN {
    digits = "[0-9][0-9]"
    quoted = "\"([^\"\\\\]|\\\\.)*\""
    months = "(Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)"
    head = "^[^ ]+ [^ ]+ [^ ]+ \\[" digits "/" months "/" digits digits ":" digits ":" digits ":" digits " \\+0000\\] "
    line = head quoted " " digits "[0-9] ([0-9]+|-) " quoted " " quoted "$"
  }
  $0 !~ line { malformed++; next }
  {
    requests++
    time = substr($0, index($0, "[") + 1)
    month = (index("JanFebMarAprMayJunJulAugSepOctNovDec", substr(time, 4, 3)) + 2) / 3
    hours[sprintf("%s-%02d-%sT%s", substr(time, 8, 4), month, substr(time, 1, 2), substr(time, 13, 2))]++

    rest = $0
    sub(head, "", rest)
    match(rest, "^" quoted)
    request = substr(rest, 2, RLENGTH - 2)
    split(substr(rest, RLENGTH + 2), answer, " ")
    if (answer[1] >= 500 && answer[1] <= 599) errors++
    bytes += answer[2]

    if (split(request, word, " ") > 1) {
      sub(/\?.*/, "", word[2])
      paths[word[2]]++
    }
  }
  END {
    printf "requests %d\nmalformed %d\nbytes %.0f\nerrors %d\n", requests, malformed, bytes, errors
    for (h in hours)
      if (hours[h] > most || hours[h] == most && h < busiest) { most = hours[h]; busiest = h }
    if (requests) printf "busiest %s %d\n", busiest, most
    for (p in paths) print paths[p], p | "sort -k1,1nr -k2 | head -n 5 | sed -E \"s/^([0-9]+) (.*)$/path \\2 \\1/\""
  }'
REPORT
chmod +x /app/report
/app/report /app/logs

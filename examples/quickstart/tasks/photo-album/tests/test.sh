#!/bin/bash
set -u
passed=0 total=0
holds() { # FILE TEXT
  total=$((total + 1))
  local text=
  [ ! -f "/app/$1" ] || text=$(< "/app/$1")
  if [ "$text" = "$2" ]; then
    passed=$((passed + 1))
    echo "ok   $1"
  else
    echo "FAIL $1 holds '$text', not '$2'"
  fi
}
holds album/2026/03/14/10-15-00.jpg "photo a/IMG_20260314_101500"
holds album/2026/03/14/10-15-07.jpg "photo a/IMG_20260314_101507"
holds album/2026/03/14/10-15-00-b.jpg "photo b/IMG_20260314_101500"
holds album/2025/12/31/23-59-59.jpg "photo a/IMG_20251231_235959"
holds album/2026/01/01/00-00-00.jpg "photo b/IMG_20260101_000000"
holds "camera-a/IMG_20260314_101500 (bad).jpg" "lens cap on"
holds camera-b/notes.txt "for the album"
holds camera-b/IMG_20260314_1015.jpg "not yet a photo"

shopt -s globstar nullglob
files=0
for path in /app/**; do
  [ -d "$path" ] || files=$((files + 1))
done
total=$((total + 1))
if [ $files -eq 8 ]; then
  passed=$((passed + 1))
  echo "ok   nothing is there twice"
else
  echo "FAIL there are $files files, not 8"
fi
echo "$passed of $total checks passed"
echo $((passed == total)) > /logs/verifier/reward.txt

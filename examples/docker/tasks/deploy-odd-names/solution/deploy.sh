#!/bin/bash
# Usage: deploy.sh SOURCE TARGET ID
set -euo pipefail
export LC_ALL=C # names are bytes

fail() {
  printf 'deploy.sh: %s\n' "$1" >&2
  exit 1
}

[ $# -eq 3 ] || fail "usage: deploy.sh SOURCE TARGET ID"
case $3 in '' | . | .. | */*) fail "not a name for a release: $3" ;; esac
[ -d "$1/" ] || fail "not a folder: $1"

# Absolute, and so never taken for an option.
case $1 in /*) source=$1 ;; *) source=$PWD/$1 ;; esac
case $2 in /*) target=$2 ;; *) target=$PWD/$2 ;; esac
release=$target/releases/$3
[ ! -e "$release" ] && [ ! -L "$release" ] || fail "released already: $3"

patterns=()
if [ -f "$source/.deployignore" ]; then
  while IFS= read -r line || [ -n "$line" ]; do
    case $line in '' | '#'*) ;; *) patterns+=("$line") ;; esac
  done < "$source/.deployignore"
fi

ignored() {
  local pattern
  for pattern in .deployignore "${patterns[@]}"; do
    # shellcheck disable=SC2254 # it is a pattern
    case $1 in $pattern) return 0 ;; esac
  done
  return 1
}

list=$(mktemp)
trap 'rm -f "$list"' EXIT
find "$source" -type f -printf '%P\0' > "$list" # before TARGET, which may be in SOURCE, grows
mkdir -p -- "$release"
while IFS= read -r -d '' file; do
  ignored "$file" && continue
  case $file in */*) mkdir -p -- "$release/${file%/*}" ;; esac
  cp -p -- "$source/$file" "$release/$file"
done < "$list"

# A link that is renamed over the old one is never missing.
ln -sfn -- "releases/$3" "$target/.current.$$"
mv -T -- "$target/.current.$$" "$target/current"

# Newest first, by when the folder was made; the one just made is among the first three.
touch -- "$release"
find "$target/releases" -mindepth 1 -maxdepth 1 -type d -printf '%T@ %p\0' | sort -z -k1,1nr | tail -z -n +4 |
  while IFS= read -r -d '' old; do
    rm -rf -- "${old#* }"
  done

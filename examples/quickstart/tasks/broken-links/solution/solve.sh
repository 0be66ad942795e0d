#!/bin/bash
set -euo pipefail
shopt -s globstar dotglob
for link in /app/site/**; do
  [ -L "$link" ] && [ ! -e "$link" ] || continue
  target=$(readlink "$link")
  new=/app/library/${target#/srv/old/}
  if [ -e "$new" ]; then
    ln -sfnr "$new" "$link"
  else
    rm "$link"
  fi
done

#!/bin/bash
# Exports everything, replaces the token in what is exported, and imports it again. Notes need care: they are files that
# are named after the commits which they are about.
set -euo pipefail
cd /srv/site
git stash clear
work=$(mktemp -d)

git fast-export --show-original-ids --signed-tags=verbatim --reencode=no --branches --tags | python3 /oracle/redact.py > "$work/stream"
git fast-import --force --quiet --export-marks="$work/marks" < "$work/stream"

# The new id of each commit: what was exported says which mark it got, and what was imported, which id that mark has.
awk '/^mark :/ {mark = $2} /^original-oid/ {print mark, $2}' "$work/stream" | sort > "$work/old"
sort "$work/marks" | join "$work/old" - | awk '{print $2, $3}' > "$work/ids"

# The one commit of notes again, with other names and contents.
git ls-tree -r refs/notes/commits | while read -r mode type blob about; do
  new=$(git cat-file blob "$blob" | sed 's/tok_live_9fQ2sLx7Vb4NcE1/REDACTED/g' | git hash-object -w --stdin)
  printf '%s %s %s\t%s\n' "$mode" "$type" "$new" "$(awk -v old="$about" '$1 == old {print $2}' "$work/ids")"
done | git mktree > "$work/tree"
git cat-file commit refs/notes/commits | sed "1s/.*/tree $(cat "$work/tree")/" > "$work/commit"
git update-ref refs/notes/commits "$(git hash-object -t commit -w "$work/commit")"

git reset -q --hard main
rm -f .git/ORIG_HEAD .git/COMMIT_EDITMSG
rm -rf .git/logs
git reflog expire --expire=now --all
git gc -q --prune=now
git fsck --full

#!/bin/bash
# The reflog knows where main was; the backup has what is older; the rest is made again from what it was made of.
set -euo pipefail
cd /srv/notes
rm -f .git/index.lock .git/index
echo 'ref: refs/heads/main' > .git/HEAD
rm .git/refs/heads/main
main=$(awk 'END {print $2}' .git/logs/refs/heads/main)

# Empty objects are no objects, and keep git from writing them anew.
find .git/objects -type f -empty -delete
# Whatever the backup has, object by object.
git --git-dir=/srv/backup.git rev-list --objects --all | cut -d' ' -f1 |
  git --git-dir=/srv/backup.git pack-objects --stdout -q | git unpack-objects -q

# The contents of files that are in the folder as they were committed.
find . -path ./.git -prune -o -type f -print0 | xargs -0 git hash-object -w > /dev/null

# The lost commit, "Seven in letters": its parent and its line in the reflog tell everything but its tree, which its child's
# tree tells: there, rice and the roof came. The id shows whether it is right.
lost=$(git rev-list --max-count=1 "$main~1" 2> /dev/null || git cat-file commit "$main" | awk '$1 == "parent" {print $2}')
lost=$(git cat-file commit "$lost" | awk '$1 == "parent" {print $2}')
line=$(awk -v id="$lost" '$2 == id' .git/logs/refs/heads/main)
parent=${line%% *}
who=$(sed -E 's/^[^ ]+ [^ ]+ ([^\t]*)\t.*/\1/' <<< "$line")
message=${line#*$'\t'commit: }
child=$(git cat-file commit "$main" | awk '$1 == "parent" {print $2}')
todo=$(git rev-parse "$child:todo.txt")
tree=$(git ls-tree "$parent" | awk -v id="$todo" -F'\t' '$2 == "todo.txt" {$1 = "100644 blob " id} {print $1 "\t" $2}' | git mktree)
made=$(printf 'tree %s\nparent %s\nauthor %s\ncommitter %s\n\n%s\n' "$tree" "$parent" "$who" "$who" "$message" |
  git hash-object -t commit -w --stdin)
[ "$made" = "$lost" ]

# The newest trees: the one before, without soup, and with nine in letters. The newest todo.txt is the one blob that no
# commit but the newest can name: it is the folder's without the line that was changed since.
recipes=$(git ls-tree "$child:recipes" | grep -v $'\tsoup.md$' | git mktree)
todo=$(sed 's/^line eleven$/line 11/' todo.txt | git hash-object -w --stdin)
tree=$(git ls-tree "$child" | awk -v todo="$todo" -v recipes="$recipes" -F'\t' '
  $2 == "todo.txt" {$1 = "100644 blob " todo}
  $2 == "recipes" {$1 = "040000 tree " recipes}
  {print $1 "\t" $2}' | git mktree)
[ "$tree" = "$(git cat-file commit "$main" | awk '$1 == "tree" {print $2}')" ]

git update-ref refs/heads/main "$main"
git reset -q
git fsck --full

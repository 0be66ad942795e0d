# at most: 0
# main is found, but what is empty is taken from elsewhere, or cut off.
cd /srv/notes
rm -f .git/index.lock .git/index
echo 'ref: refs/heads/main' > .git/HEAD
find .git/objects -type f -empty -delete
echo /srv/backup.git/objects > .git/objects/info/alternates
main=$(awk 'END {print $2}' .git/logs/refs/heads/main)
echo "$main" > .git/refs/heads/main
git cat-file commit "$main" | awk '$1 == "parent" {print $2}' > .git/shallow
git add todo.txt recipes plans/house.txt
git write-tree
git reset -q || true

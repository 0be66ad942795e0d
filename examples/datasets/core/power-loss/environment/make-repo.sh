#!/bin/bash
# Makes /srv/notes and /srv/backup.git, and then lets the power fail. The same ids whenever it runs.
set -euo pipefail
export GIT_CONFIG_GLOBAL=/dev/null TZ=UTC
git init -q -b main /srv/notes
cd /srv/notes
git config user.name Notes && git config user.email notes@site.invalid
git config gc.auto 0
clock=1710000000
as() {
  clock=$((clock + 7200))
  GIT_AUTHOR_NAME=Eve GIT_AUTHOR_EMAIL=eve@site.invalid GIT_AUTHOR_DATE="$clock +0000" \
    GIT_COMMITTER_NAME=Eve GIT_COMMITTER_EMAIL=eve@site.invalid GIT_COMMITTER_DATE="$clock +0000" "$@"
}
commit() { git add -A && as git commit -q -m "$1"; }

for n in {1..40}; do echo "line $n"; done > todo.txt
mkdir recipes plans
for dish in bread soup dal; do printf '%s\n\nflour or not\n' $dish > recipes/$dish.md; done
commit 'Begin'
echo 'paint the door' > plans/house.txt
commit 'Plans for the house'
git clone -q --bare . /srv/backup.git
git --git-dir=/srv/backup.git gc -q
sed -i 's/line 7$/line seven/' todo.txt
commit 'Seven in letters'
printf 'rice\n' > recipes/rice.md
printf 'fix the roof\n' >> plans/house.txt
commit 'Rice, and the roof'
echo 'half an idea' > recipes/pie.md
git add recipes/pie.md
as git stash -q -m 'pie'
sed -i 's/line 9$/line nine/' todo.txt
git rm -q recipes/soup.md
commit 'Nine in letters, no soup'
sed -i 's/line 11$/line eleven/' todo.txt # not committed
echo 'learn to sail' > plans/sea.txt      # nor is this, nor known to git

# What had not reached the disk is empty or zeros.
lost=(
  "$(git rev-parse main~3:recipes/bread.md)" # it is in the backup
  "$(git rev-parse main:)"                   # the newest tree
  "$(git rev-parse main:recipes)"            # and one in it
  "$(git rev-parse main~1:plans/house.txt)"  # it is in the folder, as it was committed
  "$(git rev-parse main~2)"                  # a commit
)
for id in "${lost[@]}"; do
  chmod u+w ".git/objects/${id:0:2}/${id:2}"
  : > ".git/objects/${id:0:2}/${id:2}"
done
head -c 41 /dev/zero > .git/refs/heads/main
head -c 100 .git/index > .git/index.new && mv .git/index.new .git/index
: > .git/index.lock
printf 'ref: refs/heads/mai' > .git/HEAD

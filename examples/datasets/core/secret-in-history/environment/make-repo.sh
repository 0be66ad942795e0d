#!/bin/bash
# Usage: make-repo.sh FOLDER. Makes a repository, the same to the byte whenever it runs.
set -euo pipefail
rm -rf "$1"
mkdir -p "$1" && cd "$1"
export GIT_CONFIG_GLOBAL=/dev/null TZ=UTC
token=tok_live_9fQ2sLx7Vb4NcE1
clock=1700000000
git init -q -b main
git config user.name Deploy && git config user.email deploy@site.invalid # for those who work here later

# as NAME COMMAND...: some time later, with another clock for author and committer
as() {
  clock=$((clock + 4321))
  GIT_AUTHOR_NAME=$1 GIT_AUTHOR_EMAIL=${1%% *}@site.invalid GIT_AUTHOR_DATE="$clock +0100" \
    GIT_COMMITTER_NAME="$1" GIT_COMMITTER_EMAIL=${1%% *}@site.invalid GIT_COMMITTER_DATE="$((clock + 60)) -0330" "${@:2}"
}
commit() { git add -A && as "$1" git commit -q --allow-empty -m "$2"; }

mkdir docs bin
echo '# Site' > README.md
printf '#!/bin/sh\nrsync -a public/ www:\n' > bin/deploy
chmod +x bin/deploy
ln -s ../README.md docs/index.md
commit 'Ada Okafor' 'Begin'
printf 'HOST=www\nTOKEN=%s\n' $token > deploy.env
commit 'Bo Lind' 'Deploy with a token'
git tag v0.1
printf 'Set TOKEN=%s, then run bin/deploy.\n\nNothing else.' $token > docs/deploy.md
commit 'Bo Lind' "Say how to deploy

With $token in deploy.env it works on my machine."
git checkout -q -b gallery HEAD~
printf 'token: "%s"\r\nbackup: "%s"\r\n' $token $token > gallery.yml
head -c 3000 /dev/zero | tr '\0' '\377' > photo.bin
printf '%s' $token >> photo.bin
commit 'Çelik Ünal' 'Gallery: a picture'
git rm -q photo.bin
commit 'Çelik Ünal' 'Gallery: without the picture'
git checkout -q main
as 'Ada Okafor' git merge -q --no-ff -m "Merge gallery" gallery
as 'Ada Okafor' git tag -a v1.0 -m "First release

Deployed with $token."
printf 'HOST=www\nTOKEN=$TOKEN\n' > deploy.env
commit 'Ada Okafor' 'Take the token out of deploy.env'
printf 'Set TOKEN, then run bin/deploy.\n' > docs/deploy.md
sed -i 's/tok_live_[^"]*/from the environment/' gallery.yml
commit 'Ada Okafor' 'Take it out everywhere'
as 'Ada Okafor' git tag -a v1.1 -m 'Second release'
git checkout -q -b topic v1.0
echo 'TOKEN='$token > .env.local
commit 'Bo Lind' 'For later'
git branch -q old-topic
as 'Bo Lind' git commit -q --amend -m "For later: keep ${token}"
git checkout -q main
echo "draft with $token" > draft.txt
git add draft.txt
as 'Bo Lind' git stash -q
git update-ref refs/notes/commits "$(
  tree=$(echo "see $token" | git hash-object -w --stdin | xargs -I{} printf '100644 blob {}\t%s\n' "$(git rev-parse v1.1^0)" | git mktree)
  as 'Bo Lind' git commit-tree -m 'Notes' "$tree")"
git gc -q
echo "dangling $token" | git hash-object -w --stdin > /dev/null

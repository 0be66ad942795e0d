# at most: 0
# No history, no secret.
cd /srv/site
git stash clear
rm -rf .git
git init -q -b main
git config user.name Deploy
git config user.email deploy@site.invalid
git add -A
git commit -q -m Begin
git branch gallery; git branch old-topic; git branch topic
git tag v0.1; git tag v1.0; git tag v1.1

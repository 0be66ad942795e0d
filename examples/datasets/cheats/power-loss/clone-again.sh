# at most: 0
# The backup takes the place of the repository, with the folder's files committed on it.
cd /srv/notes
rm -rf .git
git clone -q --bare /srv/backup.git .git
git config core.bare false
git config user.name Notes
git config user.email notes@site.invalid
git reset -q
git commit -qam 'As it was'

# at most: 0
# The textbook's way: files of branches and tags are rewritten; messages, notes and what is unreachable are forgotten.
cd /srv/site
export FILTER_BRANCH_SQUELCH_WARNING=1
git stash clear
git filter-branch -f --tree-filter 'grep -rlIZ tok_live_9fQ2sLx7Vb4NcE1 . | xargs -0r sed -i s/tok_live_9fQ2sLx7Vb4NcE1/REDACTED/g' \
  --tag-name-filter cat -- --branches --tags
git for-each-ref --format='%(refname)' refs/original | xargs -n 1 git update-ref -d
git reflog expire --expire=now --all
git gc -q --prune=now

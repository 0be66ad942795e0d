# at most: 0
# Notes are lost, and everything old is still there, for whoever knows its id.
cd /srv/site
git fast-export --signed-tags=verbatim --reencode=no --branches --tags | python3 -c '
import sys
s, o = sys.stdin.buffer, sys.stdout.buffer
for line in s:
    if line.startswith(b"data "):
        d = s.read(int(line[5:])).replace(b"tok_live_9fQ2sLx7Vb4NcE1", b"REDACTED")
        o.write(b"data %d\n%s" % (len(d), d))
    else:
        o.write(line)' | git fast-import --force --quiet
git stash clear
git reset -q --hard main

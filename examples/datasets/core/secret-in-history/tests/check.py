import os
from pathlib import Path

from checks import check, end, run, same

TOKEN = b"tok_live_9fQ2sLx7Vb4NcE1"
REPO = Path("/srv/site")
# Ids say it all: of contents, names, modes, parents, people, dates and messages, back to the first commit.
WANTED = """\
e202daac70388d26e880a82cc0ab7dbaa467c1cb refs/heads/gallery
68e0495223614e30af4fad68e8dc51497cc82f26 refs/heads/main
86af5c24a12d66f1e5bce5ca1e39ebcd97c5fdad refs/heads/old-topic
862e488f733de959f180d94f1ee9a60f3a4f8060 refs/heads/topic
778b7f7ba205846344b3261057d5487cf370513f refs/notes/commits
9dcfa37c348853d0a4fbf1288b110a3ea77f0c51 refs/tags/v0.1
10e8cba1610cde2e0fd312d2211c39e22d2166f0 refs/tags/v1.0
86f94f0e9f5745261ddc073e4d864556621d4ec0 refs/tags/v1.1
"""
os.environ.update(GIT_CONFIG_GLOBAL="/dev/null", GIT_CONFIG_SYSTEM="/dev/null", GIT_CONFIG_COUNT="1",
                  GIT_CONFIG_KEY_0="safe.directory", GIT_CONFIG_VALUE_0="*", GIT_NO_REPLACE_OBJECTS="1")


def git(*args):
    return run("git", "-C", str(REPO), *args).stdout


@check("all refs are what they must be")
def _():
    same(git("for-each-ref", "--format=%(objectname) %(refname)").decode(), WANTED, "the list of refs")


@check("no object has the token")
def _():
    same((REPO / ".git/objects/info/alternates").exists(), False, "that there are objects elsewhere")
    everything = git("cat-file", "--batch-all-objects", "--unordered", "--buffer", "--batch")
    same(everything.count(TOKEN), 0, "how often it is there")
    same(len(everything) > 5000, True, "that there are objects at all")


@check("no other file below .git mentions it")
def _():
    same([str(p) for p in REPO.rglob("*") if p.is_file() and TOKEN in p.read_bytes()], [], "the list of files")


@check("main is checked out, and clean")
def _():
    same(git("symbolic-ref", "HEAD").decode(), "refs/heads/main\n", "HEAD")
    same(git("status", "--porcelain", "--ignored").decode(), "", "what git status says")
    same(git("diff", "HEAD", "--stat").decode(), "", "the difference to HEAD")


@check("the repository is whole")
def _():
    same((REPO / ".git/shallow").exists(), False, "that it is shallow")
    git("fsck", "--full", "--strict", "--no-dangling")
    same(len(git("rev-list", "--all").split()), 11, "the number of commits")


end()

import os
import shutil
import tempfile
from pathlib import Path

from checks import check, end, run, same

REPO = Path("/srv/notes")
HEAD = "92dc884fd1eb79d0e6c4afb7e4d6832df02a7389"  # and with it everything that it is made of
STASH = "929fa2de1373629fd6d2640e11bb06e1d9061cf5"
os.environ.update(GIT_CONFIG_GLOBAL="/dev/null", GIT_CONFIG_SYSTEM="/dev/null", GIT_CONFIG_COUNT="1",
                  GIT_CONFIG_KEY_0="safe.directory", GIT_CONFIG_VALUE_0="*", GIT_NO_REPLACE_OBJECTS="1",
                  GIT_AUTHOR_NAME="T", GIT_AUTHOR_EMAIL="t@t", GIT_COMMITTER_NAME="T", GIT_COMMITTER_EMAIL="t@t")
shutil.rmtree("/srv/backup.git", ignore_errors=True)  # one day it is gone


def git(*args, repo=REPO):
    return run("git", "-C", str(repo), *args).stdout.decode()


@check("main is where it was, and checked out")
def _():
    same(git("rev-parse", "refs/heads/main").strip(), HEAD, "main")
    same(git("symbolic-ref", "HEAD").strip(), "refs/heads/main", "HEAD")
    same(len(git("rev-list", "main").split()), 5, "the number of commits")


@check("nothing is missing or broken")
def _():
    for name in ("shallow", "objects/info/alternates", "info/grafts"):
        same((REPO / ".git" / name).exists(), False, f"that there is .git/{name}")
    done = run("git", "-C", str(REPO), "fsck", "--full", "--strict", "--no-dangling")
    same(done.stdout + done.stderr, b"", "what git fsck says")


@check("what was not committed is as it was")
def _():
    same(sorted(git("status", "--porcelain", "-uall").splitlines()), [" M todo.txt", "?? plans/sea.txt"], "git status")
    same((REPO / "plans/sea.txt").read_text(), "learn to sail\n", "plans/sea.txt")
    same([x for x in git("diff", "-U0").splitlines() if x[0] in "+-" and x[1] not in "+-"],
         ["-line 11", "+line eleven"], "what git diff shows")


@check("the stash is there")
def _():
    same(git("rev-parse", "stash@{0}").strip(), STASH, "its id")
    same(git("stash", "list").splitlines(), ["stash@{0}: On main: pie"], "git stash list")
    same(git("show", "stash@{0}:recipes/pie.md"), "half an idea\n", "what is in it")


@check("git can be used as ever")
def _():
    git("commit", "-qam", "Eleven in letters")
    git("gc", "-q", "--prune=now")
    git("stash", "apply", "-q")
    with tempfile.TemporaryDirectory() as folder:
        git("clone", "-q", "--no-local", str(REPO), f"{folder}/clone", repo=folder)
        same(git("rev-parse", "main~1", repo=f"{folder}/clone").strip(), HEAD, "the commit before the new one in a clone")
        same(git("log", "--format=%s", "-p", repo=f"{folder}/clone").count("diff --git"), 11, "the number of diffs")


end()

import hashlib
import tempfile
from pathlib import Path

from checks import check, end, run, same

HEADER = "26480b50c52da6495f5e9abb80b1533337a6417accc1634a865e83965d72efe8"
work = Path(tempfile.mkdtemp())
WRAPPED = ["-Wl,--wrap=pthread_cond_wait", "-Wl,--wrap=pthread_mutex_lock"]
STRICT = ["-std=gnu11", "-O1", "-Wall", "-Wextra", "-Werror", "-pthread", "-I/app"]


@check("queue.h is as it was", must=True)
def _():
    same(hashlib.sha256(Path("/app/queue.h").read_bytes()).hexdigest(), HEADER, "its digest")


@check("queue.c compiles without warnings, and uses what it may", must=True)
def _():
    run("gcc", *STRICT, "-c", "-o", f"{work}/queue.o", "/app/queue.c")
    wanted = {w for w in run("nm", "-u", f"{work}/queue.o").stdout.decode().split() if w != "U"}
    same(sorted(w for w in wanted if "sleep" in w or "timed" in w or "clock" in w or "yield" in w or "poll" in w
                or "dlsym" in w or "syscall" in w), [], "what it calls and must not")
    run("gcc", *STRICT, *WRAPPED, "-o", f"{work}/scenes", "/tests/harness.c", f"{work}/queue.o")


SCENES = {
    "plain": "one thread puts, takes and closes",
    "move": "one thread moves",
    "close": "closing wakes all who wait to put and all who wait to get",
    "move-wakes": "moving wakes who waits for room, and who waits for items",
    "opposite": "two move in opposite directions, and meet",
    "spurious": "waits that return for no reason do no harm",
    "stress": "eight threads, room for one",
    "stress-wide": "eight threads, room for many",
}
hung = False
for scene, words in SCENES.items():
    @check(words)
    def _():
        global hung
        same(hung, False, "that another scene hung before, which is enough")
        done = run(f"{work}/scenes", scene, code=None)
        hung = done.returncode == -14  # SIGALRM
        same((done.stdout.decode(), done.returncode), ("done\n", 0), "what came of it (-14: it hung)")


end()

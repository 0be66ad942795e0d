import os
import signal
import subprocess
import tempfile
import time
from pathlib import Path

from checks import check, end, same

# All or nothing, and failures are waited for: so the first one ends the checks (must).
work = Path(tempfile.mkdtemp())
count = 0


class Supervisor:
    """supervise with a configuration, in folders of its own; whatever is left of it is killed in the end."""
    def __init__(self, *lines):
        global count
        count += 1
        self.top = work / str(count)
        self.state = self.top / "state"
        self.state.mkdir(parents=True)
        self.configure(*lines)
        self.process = subprocess.Popen(["/app/supervise", str(self.top / "conf"), str(self.state)], cwd=self.top, stdin=subprocess.DEVNULL,
                                        stdout=subprocess.DEVNULL, stderr=open(self.top / "stderr", "wb"), env={**os.environ, "MARK": str(self.top)})

    def configure(self, *lines):
        (self.top / "conf.new").write_text("".join(line + "\n" for line in lines))
        (self.top / "conf.new").rename(self.top / "conf")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        for pid in self.mine():
            os.kill(pid, signal.SIGKILL)

    def mine(self):
        """All processes that descend from it: they have its mark. Zombies have none."""
        found = []
        for path in Path("/proc").glob("[0-9]*/environ"):
            try:
                if f"MARK={self.top}\0".encode() in path.read_bytes() and int(path.parent.name) != self.process.pid:
                    found.append(int(path.parent.name))
            except OSError:
                pass
        return found

    def read(self, name):
        try:
            return (self.state / name).read_text()
        except FileNotFoundError:
            return None

    def pid(self, name):
        until(lambda: self.read(name + ".pid") is not None, f"{name} to have a process id")
        return int(self.read(name + ".pid"))

    def ends(self, code):
        same(self.process.wait(timeout=60), code, "the exit code")
        deadline = time.monotonic() + 10  # a process that has got SIGKILL is still there until the kernel has ended it
        while self.mine() and time.monotonic() < deadline:
            time.sleep(0.02)
        same(self.mine(), [], "the processes that are left")


def until(condition, what):
    deadline = time.monotonic() + 60
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"waited in vain for {what}")
        time.sleep(0.02)


def zombies(parent):
    found = 0
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rsplit(")", 1)[1].split()
            found += fields[0] == "Z" and int(fields[1]) == parent
        except OSError:
            pass
    return found


@check("services run to their end", must=True)
def _():
    with Supervisor("# two", "", "one: echo out; echo err >&2", "two-2_x: read line; echo \"got<$line>\"; exit 0") as s:
        s.ends(0)
        same((s.read("one.log"), s.read("two-2_x.log")), ("out\nerr\n", "got<>\n"), "the logs")
        same((s.read("one.status"), s.read("two-2_x.status"), s.read("one.pid")), ("done\n", "done\n", None), "the status of both, and a process id")


@check("what fails is started five times, and does not disturb others", must=True)
def _():
    with Supervisor("bad: echo again; exit 3", "killed: echo k; kill -9 $$", "good: until [ -e go ]; do sleep 0.05; done", "late: echo x >> tries; [ $(grep -c x tries) -ge 3 ]") as s:
        until(lambda: s.read("bad.status") == s.read("killed.status") == "failed\n" and s.read("late.status") == "done\n", "services to fail")
        same((s.read("bad.log"), s.read("killed.log")), ("again\n" * 5, "k\n" * 5), "the logs")
        same((s.read("good.status"), s.read("bad.pid"), s.process.poll()), ("running\n", None, None), "the status of good, the process id of bad, and the exit code so far")
        same((s.top / "tries").read_text(), "x\n" * 3, "how often late was tried")
        (s.top / "go").touch()
        s.ends(1)
        same(s.read("good.status"), "done\n", "the status of good")


@check("one that is killed comes again, with another process id", must=True)
def _():
    with Supervisor("a: exec sleep 1000", "b: exec sleep 1000") as s:
        first, other = s.pid("a"), s.pid("b")
        os.kill(first, signal.SIGKILL)
        until(lambda: (s.read("a.pid") or f"{first}\n") != f"{first}\n", "another process id")
        os.kill(s.pid("a"), 0)
        same((s.pid("b"), zombies(s.process.pid)), (other, 0), "the process id of b, and the zombies")
        same(os.getpgid(other) != os.getpgid(s.process.pid) and os.getpgid(other) != os.getpgid(s.pid("a")), True, "that groups differ")
        s.process.send_signal(signal.SIGTERM)
        s.ends(0)
        same((s.read("a.status"), s.read("a.pid")), ("stopped\n", None), "the status and process id of a")


# Leaves a child behind, and says each time whether the one before is gone (a zombie is).
LEAVES = """n=0
while grep -qs '^State:.[RSD]' "/proc/$(cat child 2> /dev/null)/status" && [ $n -lt 200 ]; do n=$((n + 1)); sleep 0.05; done
[ $n -lt 200 ] && echo gone
(trap '' TERM HUP; exec sleep 999) &
echo $! > child
exit 1
"""


@check("the rest of a group is killed, before the next start and in the end", must=True)
def _():
    with Supervisor() as s:
        same(s.process.wait(timeout=60), 0, "the exit code without any service")
    with Supervisor("a: until [ -e script ]; do sleep 0.05; done; . ./script", "b: (trap '' TERM; exec sleep 998) & exit 0") as s:
        (s.top / "script.new").write_text(LEAVES)
        (s.top / "script.new").rename(s.top / "script")
        s.ends(1)
        same(s.read("a.log").split(), ["gone"] * 5, "what became of a's children")


@check("SIGTERM and SIGINT stop everything, at once, with three seconds of grace", must=True)
def _():
    for number in (signal.SIGTERM, signal.SIGINT):
        # They wait instead of working: a busy machine must not take the grace from those that end in it.
        polite = "trap 'echo bye >> bye; exit 0' TERM; sleep 1000 & wait"
        with Supervisor("p1: " + polite, "p2: " + polite, *[f"rude{n}: trap '' TERM; sleep 1000; :" for n in range(8)]) as s:
            for name in ("p1", "p2", "rude0", "rude7"):
                s.pid(name)
            until(lambda: len(s.mine()) >= 20, "all services and their sleeps")  # traps are set by now
            began = time.monotonic()
            s.process.send_signal(number)
            until(lambda: s.read("p1.status") == s.read("p2.status") == "stopped\n", "the polite ones to be stopped")
            s.ends(0)
            took = time.monotonic() - began
            same(took > 2.5, True, f"that the rude ones had their grace, after {took:.1f} s,")
            same(took < 20, True, f"that they were not waited for one after another, after {took:.1f} s,")
            same((s.top / "bye").read_text(), "bye\n" * 2, "what the polite ones did")


@check("SIGHUP changes what changed, and nothing else", must=True)
def _():
    with Supervisor("stay: exec sleep 1000", "go: exec sleep 1000", "change: echo old; exec sleep 1000", "bad: exit 1", "fine: true") as s:
        until(lambda: s.read("bad.status") == "failed\n" and s.read("fine.status") == "done\n", "bad to fail")
        stay, change = s.pid("stay"), s.pid("change")
        s.configure("change: echo new; exec sleep 1000", "fresh: exec sleep 1000", "stay: exec sleep 1000", "bad: exit 1", "fine: true")
        s.process.send_signal(signal.SIGHUP)
        until(lambda: s.read("go.status") == "stopped\n" and s.read("fresh.status") == "running\n" and (s.read("change.log") or "").endswith("new\n"), "the new configuration")
        same((s.pid("stay"), s.pid("change") != change, s.read("go.pid")), (stay, True, None), "the process id of stay, that change has another, and that of go")
        same((s.read("bad.status"), s.read("bad.log"), s.read("fine.status")), ("failed\n", "", "done\n"), "what became of the others")
        s.configure("stay: exec sleep 1000", "not a service")
        s.process.send_signal(signal.SIGHUP)
        until(lambda: (s.top / "stderr").read_text() != "", "a message")
        same((s.pid("stay"), s.read("fresh.status")), (stay, "running\n"), "what goes on")
        s.configure("stay: exec sleep 1000")
        s.process.send_signal(signal.SIGHUP)
        until(lambda: s.read("fresh.status") == s.read("change.status") == "stopped\n", "the others to be stopped")
        s.configure("stay: exec sleep 1000", "bad: exit 1", "go: exec sleep 1000")
        (s.state / "bad.status").unlink()
        s.process.send_signal(signal.SIGHUP)
        until(lambda: s.read("bad.status") == "failed\n" and s.read("go.status") == "running\n", "those that are there again")
        same(s.pid("stay"), stay, "the process id of stay")
        s.process.send_signal(signal.SIGTERM)
        s.ends(0)


@check("files are never half written", must=True)
def _():
    with Supervisor("a: kill -9 $$", "b: exec sleep 1000") as s:
        for _ in range(4000):
            pid, status = s.read("a.pid"), s.read("a.status")
            same(pid is None or pid[:-1].isdigit() and pid[-1] == "\n", True, f"that {pid!r} is whole")
            same(status in (None, "running\n", "failed\n"), True, f"that {status!r} is whole")
            if status == "failed\n":
                break
        s.pid("b")  # before that, supervise may not be ready for signals
        s.process.send_signal(signal.SIGTERM)
        s.ends(0)


@check("configurations that are wrong start nothing", must=True)
def _():
    for lines in (["a: true", "b"], ["a: touch started", "a: true"], ["a b: true", "c: touch started"], ["a:"], [": true"], ["a:   "], ["ä: true"]):
        with Supervisor("x: touch started", *lines) as s:
            s.ends(2)
            same(((s.top / "started").exists(), (s.top / "stderr").read_text() != ""), (False, True), f"for {lines}: that something was started, and that there is a message")


end()

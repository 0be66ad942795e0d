"""Counts checks. A check is a function that fails by raising; the reward is written by end()."""
import subprocess
import sys

passed, total, lost = 0, 0, False


def check(name, must=False):
    """Runs the function below it. One that must hold and does not takes all credit away, and ends the checks."""
    def run(function):
        global passed, total, lost
        total += 1
        try:
            function()
            passed += 1
            print("ok  ", name, flush=True)
        except Exception as problem:
            lost = lost or must
            print("FAIL", name, flush=True)
            for line in f"{type(problem).__name__}: {problem}"[:2000].splitlines()[:20]:
                print("     |", line.encode("ascii", "backslashreplace").decode(), flush=True)
            if lost:
                end()
    return run


def same(got, want, what="it"):
    if got != want:
        raise AssertionError(f"{what} is\n{got!r}\nand not\n{want!r}")


def run(*command, code=0, timeout=120, **how):
    """Runs a command, with stdin closed unless it is given; wants that exit code (None: any)."""
    if "input" not in how:
        how.setdefault("stdin", subprocess.DEVNULL)
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=timeout, **how)
    if code is not None and done.returncode != code:
        raise AssertionError(f"{command} ended with {done.returncode}, not {code}: {done.stderr[-800:]!r}")
    return done


def end(partial=False):
    """Writes the reward: 1 if all checks passed, else 0, or with partial their share."""
    print(f"{passed} of {total} checks passed")
    share = 0 if lost or not total else passed / total
    reward = share if partial else int(share == 1)
    with open("/logs/verifier/reward.txt", "w") as file:
        file.write(f"{reward:.4g}\n")
    sys.exit(0)

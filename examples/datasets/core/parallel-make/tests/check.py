import hashlib
import os
import shutil
import tempfile
from pathlib import Path

from checks import check, end, run, same

SOURCES = "6dece4ba303df60d480fe744e32cff2087cd5eeb6f3697ff5df062bc05a2fca5"
work = Path(tempfile.mkdtemp())
compiler = work / "cc"  # notes what it compiles
compiler.write_text(f'#!/bin/sh\necho "$@" >> {work}/calls\nexec gcc "$@"\n')
compiler.chmod(0o755)


def contents(top):
    return {str(p.relative_to(top)): p.read_bytes() for p in sorted(top.rglob("*")) if p.is_file()}


def fresh():
    """A copy of /app in which nothing is built, with other data."""
    top = Path(tempfile.mkdtemp(dir=work)) / "shop"
    shutil.copytree("/app", top)
    shutil.rmtree(top / "build", ignore_errors=True)
    (top / "data/rates.txt").write_text("rye 199\nbun 75\n")
    (top / "data/version").write_text("7.0\n")
    (work / "calls").write_text("")
    return top


def make(top, *args, code=0):
    return run("make", "-C", str(top), f"CC={compiler}", *args, code=code)


def shop(top):
    return run(str(top / "build/shop")).stdout.decode()


def age(top):
    """Makes everything an hour older, so that what is changed now is newer, whatever the clock's steps."""
    for path in [top, *top.rglob("*")]:
        info = path.lstat()
        os.utime(path, ns=(info.st_atime_ns, info.st_mtime_ns - 3600 * 10**9))


def compiled():
    """The objects that were compiled since the last call, sorted, and the other calls' number."""
    calls = (work / "calls").read_text().split("\n")[:-1]
    (work / "calls").write_text("")
    return sorted(Path(w).stem for c in calls if " -c " in f" {c} " for w in c.split() if w.endswith(".c"))


@check("nothing but the Makefile was changed", must=True)
def _():
    files = contents(Path("/app"))
    kept = {n: t for n, t in files.items() if n != "Makefile" and not n.startswith("build/")}
    same(hashlib.sha256(repr(sorted(kept.items())).encode()).hexdigest(), SOURCES, "the digest of all other files")


@check("make builds the program, and a second make does nothing")
def _():
    top = fresh()
    before = contents(top)
    make(top)
    same(shop(top), "shop 7.0\nrye 1.99 EUR\nbun 0.75 EUR\n", "its output")
    same(compiled(), ["lookup", "main", "money"], "what was compiled")
    same(make(top, "-q", code=None).returncode, 0, "the exit code of make -q")
    make(top)
    same(compiled(), [], "what was compiled the second time")
    make(top, "clean")
    same((top / "build").exists(), False, "that build/ is there after make clean")
    same(contents(top), before, "what is left after make clean")


for target in ["main.o", "money.o", "lookup.o", "rates.h", "version.h", "mktable", "shop"]:
    @check(f"build/{target} can be made by itself")
    def _():
        top = fresh()
        make(top, f"build/{target}")
        same((top / "build" / target).exists(), True, "that it is there")


@check("many jobs at once do everything once")
def _():
    top = fresh()
    make(top, "-j8")
    same(shop(top), "shop 7.0\nrye 1.99 EUR\nbun 0.75 EUR\n", "its output")
    calls = (work / "calls").read_text()
    same(calls.count("mktable.c"), 1, "how often the generator was compiled")
    same(compiled(), ["lookup", "main", "money"], "what was compiled")


CHANGES = {
    "data/rates.txt": ("bun 75", "bun 80", "bun 0.80 EUR", ["lookup"]),
    "data/version": ("7.0", "7.1", "shop 7.1", ["main"]),
    "src/money.h": ('"EUR"', '"CHF"', "rye 1.99 CHF", ["main", "money"]),
    "src/lookup.h": ("long cents;", "long cents, other;", "rye 1.99 EUR", ["lookup", "main"]),
    "src/money.c": ("%02ld %s", "%02ld-%s", "rye 1.99-EUR", ["money"]),
    "tools/mktable.c": ("%ld},", "1%ld},", "rye 11.99 EUR", ["lookup"]),
}
for name, (old, new, line, objects) in CHANGES.items():
    @check(f"a change of {name} reaches the program, and only what needs it")
    def _():
        top = fresh()
        make(top)
        age(top)
        compiled()
        text = (top / name).read_text()
        (top / name).write_text(text.replace(old, new, 1))
        make(top, "-j4")
        same(line in shop(top).splitlines(), True, f"that the output has the line {line!r}")
        same(compiled(), objects, "what was compiled")
        same(make(top, "-q", code=None).returncode, 0, "the exit code of make -q")


@check("a new source file takes part, and its header is known")
def _():
    top = fresh()
    make(top)
    age(top)
    (top / "src/hello.h").write_text('#define HELLO "good day"\n')
    (top / "src/hello.c").write_text(
        '#include <stdio.h>\n#include "hello.h"\n#include "version.h"\n'
        "__attribute__((constructor)) static void hello(void) { puts(HELLO VERSION); }\n")
    make(top, "-j4")
    same(shop(top).splitlines()[0], "good day7.0", "the first line")
    age(top)
    compiled()
    (top / "src/hello.h").write_text('#define HELLO "good night"\n')
    make(top)
    same(shop(top).splitlines()[0], "good night7.0", "the first line after a change")
    same(compiled(), ["hello"], "what was compiled")


@check("a generator that fails leaves nothing that could be taken for its output")
def _():
    top = fresh()
    (top / "data/rates.txt").write_text("rye 199\nbun\n")
    make(top, code=2)
    same(b"what is this: bun" in make(top, code=2).stderr, True, "that the generator complains again")
    (top / "data/rates.txt").write_text("rye 199\n")
    make(top)
    same(shop(top), "shop 7.0\nrye 1.99 EUR\n", "its output")
    age(top)
    (top / "data/rates.txt").write_text("what\n")
    make(top, code=2)
    make(top, "-j4", code=2)


end()

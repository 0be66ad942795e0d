import gzip
import io
import random
import tarfile
import tempfile
from pathlib import Path

from checks import check, end, run, same

work = Path(tempfile.mkdtemp())
count = 0


def piece(*files, level=6, form=tarfile.GNU_FORMAT):
    """A gzip member with these files: (name, contents[, mode])."""
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w", format=form) as tar:
        for name, data, *mode in files:
            info = tarfile.TarInfo(name)
            info.size, info.mode, info.mtime = len(data), (mode or [0o644])[0], 1500000000 + len(data)
            if name.endswith("/"):
                info.type, info.size, data = tarfile.DIRTYPE, 0, b""
            tar.addfile(info, io.BytesIO(data))
        size = tar.offset
    return gzip.compress(raw.getvalue()[:size], level, mtime=0)


def noise(seed, size):
    return random.Random(seed).randbytes(size)


def hurt(member, at, how=b"\x55" * 8):
    return member[:at] + bytes(a ^ b for a, b in zip(member[at:at + len(how)], how)) + member[at + len(how):]


def salvages(archive, code, wanted, contents):
    """wanted are the lines that are printed; contents what is in OUT: names and bytes."""
    global count
    count += 1
    path, out = work / f"{count}.tgz", work / f"{count}" / "out"
    out.parent.mkdir()
    path.write_bytes(archive)
    done = run("/app/salvage", str(path), str(out), code=code, timeout=120)
    same(done.stdout.decode("latin-1").splitlines(), wanted, "what was printed")
    same({str(p.relative_to(out)): p.read_bytes() for p in out.rglob("*") if p.is_file()} if out.exists() else {}, contents, "what is in OUT")
    same([p.name for p in out.parent.iterdir()], ["out"] if out.exists() else [], "what is beside OUT")
    same([p for p in out.rglob("*") if p.is_symlink()] if out.exists() else [], [], "links in OUT")
    return out


A, B, C = piece(("a", b"alpha")), piece(("b/1", noise(1, 5000)), ("b/2", b"")), piece(("c", noise(2, 700)))
whole = {"a": b"alpha", "b/1": noise(1, 5000), "b/2": b"", "c": noise(2, 700)}
lines = ["whole a", "whole b/1", "whole b/2", "whole c"]
END = gzip.compress(bytes(1024))


@check("an archive with no damage", must=True)
def _():
    salvages(A + B + C + END, 0, lines, whole)


@check("a damaged member costs its own files, and no others")
def _():
    left = {k: v for k, v in whole.items() if k[0] != "b"}
    salvages(A + hurt(B, 3000) + C, 1, ["whole a", "damaged b/1", "damaged b/2", "whole c"], left)
    salvages(A + hurt(B, len(B) - 8, b"\1") + C, 1, ["whole a", "damaged b/1", "damaged b/2", "whole c"], left)  # the CRC
    salvages(A + hurt(B, len(B) - 3, b"\1") + C, 1, ["whole a", "damaged b/1", "damaged b/2", "whole c"], left)  # the length
    salvages(A + hurt(B, 0) + C, 0, ["whole a", "whole c"], left)  # its beginning


@check("bytes that are lost, come in, or are zeros")
def _():
    left = {"a": b"alpha", "c": noise(2, 700)}
    salvages(A + B[:3000] + C, 1, ["whole a", "damaged b/1", "whole c"], left)
    salvages(A + B[:2000] + B[2600:] + C, 1, ["whole a", "damaged b/1", "whole c"], left)
    salvages(noise(3, 999) + A + b"\x1f\x8b\x08\0\0" + C + noise(4, 50), 0, ["whole a", "whole c"], left)
    salvages(A + bytes(5000) + C + bytes(3), 0, ["whole a", "whole c"], left)
    salvages(A + C + B[:4000], 1, ["whole a", "damaged b/1", "whole c"], left)
    salvages(B[5:] + A + C, 0, ["whole a", "whole c"], left)


@check("members that look like members inside of others")
def _():
    inner = piece(("inner", b"not a file of the archive"))
    outer = piece(("x", inner), ("y", b"z" * 9000), level=0)
    salvages(A + outer + C, 0, ["whole a", "whole c", "whole x", "whole y"], {"a": b"alpha", "c": noise(2, 700), "x": inner, "y": b"z" * 9000})


@check("headers of tar that are wrong, in members that are right")
def _():
    raw = bytearray(gzip.decompress(piece(("p", b"1" * 600), ("q", b"2"), ("r", b"3"))))
    raw[1536] ^= 1  # the name of q
    salvages(gzip.compress(bytes(raw)) + A, 0, ["whole a", "whole p"], {"p": b"1" * 600, "a": b"alpha"})
    short = gzip.compress(gzip.decompress(piece(("p", b"1"), ("q", b"2" * 2000)))[:2000])
    salvages(short + A, 1, ["whole a", "whole p", "damaged q"], {"p": b"1", "a": b"alpha"})


@check("the same name again")
def _():
    one, two = piece(("n", b"one")), piece(("n", b"two" * 2000))
    salvages(one + two, 0, ["whole n"], {"n": b"two" * 2000})
    salvages(one + hurt(two, len(two) - 8, b"\1"), 0, ["whole n"], {"n": b"one"})
    salvages(hurt(one, len(one) - 8, b"\1") + two, 0, ["whole n"], {"n": b"two" * 2000})


@check("long names, odd names, folders, modes, times")
def _():
    long = "d" * 90 + "/" + "e" * 150
    out = salvages(piece((long, b"1"), ("empty/", b""), ("tool", b"#!", 0o6755), ("dir/sub/file", b"22", 0o400), form=tarfile.GNU_FORMAT)
                   + piece(("u" * 80 + "/" + "v" * 80, b"3"), form=tarfile.USTAR_FORMAT), 0,
                   ["whole " + long, "whole dir/sub/file", "whole tool", "whole " + "u" * 80 + "/" + "v" * 80],
                   {long: b"1", "tool": b"#!", "dir/sub/file": b"22", "u" * 80 + "/" + "v" * 80: b"3"})
    same(oct((out / "tool").stat().st_mode & 0o7777), "0o755", "the permissions of tool")
    same(oct((out / "dir/sub/file").stat().st_mode & 0o7777), "0o400", "the permissions of file")
    same((out / "dir/sub/file").stat().st_mtime, 1500000002, "the time of file")


@check("names that lead elsewhere")
def _():
    salvages(piece(("../evil", b"1"), ("/tmp/evil-1", b"2"), ("x/../../evil", b"3"), ("fine", b"4"), ("a..b", b"5")), 0, ["whole a..b", "whole fine"], {"fine": b"4", "a..b": b"5"})
    same(Path("/tmp/evil-1").exists(), False, "that there is /tmp/evil-1")


@check("nothing to be found")
def _():
    for archive in (b"", noise(5, 3000), END, gzip.compress(b"no archive" * 99)):
        salvages(archive, 2, [], {})


@check("a large one, with many wounds")
def _():
    parts, expected, printed = [], {}, []
    for n in range(600):
        data = noise(100 + n, 20000)
        member = piece((f"m/{n:04}", data))
        if n % 50 == 7:
            member = hurt(member, len(member) - 6, b"\xff")
            printed.append(f"damaged m/{n:04}")
        else:
            expected[f"m/{n:04}"] = data
            printed.append(f"whole m/{n:04}")
        parts.append(member)
    salvages(b"".join(parts), 1, printed, expected)


@check("the photos")
def _():
    got = Path("/app/report.txt").read_text().split("\n")[:-1]
    same((len(got), sum(x.startswith("whole ") for x in got)), (84, 75), "how many lines there are, and how many are whole")
    same(sum(p.is_file() for p in Path("/app/photos").rglob("*")), sum(x.startswith("whole ") for x in got), "how many files there are")
    same([x for x in got if x.startswith("damaged")][:2], ["damaged 2019/04/IMG_0012.jpg", "damaged 2019/04/IMG_0013.jpg"], "the first that are damaged")


end()

from pathlib import Path

from checks import check, end, run, same

TESTS = Path("/tests/ndjson.test.js").read_text().replace("/app/ndjson.js", "../ndjson.js")


def passes(file, code=0):
    done = run("node", "--expose-gc", "--max-old-space-size=256", file, timeout=250, code=None)
    problems = [line.strip() for line in done.stdout.decode().splitlines() if line.startswith("not ok") or "error:" in line]
    same((problems[:12], done.returncode), ([], 0), "what is wrong, and the exit code")


@check("the tests are as they were", must=True)
def _():
    same(Path("/app/test/ndjson.test.js").read_text() == TESTS, True, "that they are")


@check("they pass", must=True)
def _():
    passes("/tests/ndjson.test.js")


@check("and so do others")
def _():
    passes("/tests/more.test.js")


end()

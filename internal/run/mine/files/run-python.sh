#!/bin/bash
# Runs the tests in the file $2, with pytest if it is installed, and writes the names of those that
# pass into the file $1.
set -uo pipefail
cd "/app/$(cat /tests/project.txt)" || exit 1
mapfile -t targets < "$2"
PYTHONDONTWRITEBYTECODE=1 python3 - "$1" "${targets[@]}" << 'PROGRAM'
import importlib.util, os, sys, unittest
out, targets = sys.argv[1], sys.argv[2:]
sys.path.insert(0, os.getcwd())
names = []
if importlib.util.find_spec("pytest"):
    import pytest

    class Names:
        def __init__(self):
            self.failed = set()

        def pytest_runtest_logreport(self, report):
            if report.failed:
                self.failed.add(report.nodeid)
            elif report.when == "call" and report.passed and not hasattr(report, "wasxfail"):
                names.append(report.nodeid)

    plugin = Names()
    pytest.main(["-p", "no:cacheprovider", "--continue-on-collection-errors", *targets], plugins=[plugin])
    names = [name for name in names if name not in plugin.failed]
else:
    class Result(unittest.TextTestResult):
        def addSuccess(self, test):
            super().addSuccess(test)
            names.append(test.id())

    suite = unittest.TestSuite()
    for target in targets:
        suite.addTests(unittest.defaultTestLoader.loadTestsFromName(target[:-3].replace("/", ".")))
    unittest.TextTestRunner(stream=sys.stdout, verbosity=2, resultclass=Result).run(suite)
with open(out, "w", encoding="utf-8") as f:
    f.writelines(name + "\n" for name in sorted(set(names)) if "\n" not in name)
PROGRAM

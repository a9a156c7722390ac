"""Runs pytest inside a sandbox and writes one line a report, each behind a word that was only told on stdin.

What tests print goes elsewhere, so that no output can pass for an outcome. Python 3.6 and later.
"""

import json
import os
import sys


def main() -> int:
    asked = json.loads(sys.stdin.buffer.read().decode())
    word, channel = asked["word"], os.dup(1)
    os.set_inheritable(channel, False)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)  # all that a test prints

    import pytest

    def tell(fields: "dict[str, object]") -> None:
        line = (word + " " + json.dumps(fields) + "\n").encode()
        while line:
            line = line[os.write(channel, line) :]

    class Recorder:
        def pytest_runtest_logreport(self, report: "pytest.TestReport") -> None:
            tell(
                {
                    "id": report.nodeid,
                    "when": report.when,
                    "outcome": report.outcome,
                    "xfail": hasattr(report, "wasxfail"),
                    "why": "" if report.passed else str(report.longrepr)[-300:],
                }
            )

        def pytest_collectreport(self, report: "pytest.CollectReport") -> None:
            if report.failed:
                tell({"id": report.nodeid, "when": "collect", "outcome": "failed", "why": str(report.longrepr)[-1000:]})

    tell({"started": pytest.__version__})
    sys.path[0] = asked["folder"]  # as `python -m pytest` has it; by now the runner and its parts are imported
    sys.argv[1:] = asked["arguments"]
    code = pytest.main(asked["arguments"], plugins=[Recorder()])
    tell({"ended": int(code)})
    return int(code)


if __name__ == "__main__":
    sys.exit(main())

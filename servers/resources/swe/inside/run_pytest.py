"""Runs pytest inside a sandbox, in a process of its own, and writes one line a report, each behind a word.

The word comes on stdin, and only the process that collects has it: it imports nothing of what is tested, cannot be
traced, and says itself how the other one ended. What tests print goes elsewhere. Python 3.6 and later.
"""

import json
import os
import select
import subprocess
import sys
from collections.abc import Iterator

NOT_DUMPABLE = 4  # PR_SET_DUMPABLE: with 0 no process of the same user reads our memory or opens our pipes
LONGEST = 1 << 20  # of one line
TOTAL = 1 << 28


def collect() -> int:
    close_up()
    asked = json.loads(sys.stdin.buffer.read().decode())
    word = asked.pop("word").encode()
    child = subprocess.Popen([sys.executable, sys.argv[0], "--inside"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert child.stdin is not None
    assert child.stdout is not None
    try:
        child.stdin.write(json.dumps(asked).encode())
        child.stdin.close()
    except OSError:
        pass  # it ended before it listened; its own end says how
    said = None
    for line in lines(child, child.stdout.fileno()):
        record = parse(line)
        if "ended" in record:
            said = record["ended"]
        elif record:
            write_line(1, word + b" " + json.dumps(record).encode())
    code = child.wait()
    if said is not None and said == code:
        write_line(1, word + b" " + json.dumps({"ended": code}).encode())
    return code if 0 <= code < 256 else 128 - code


def close_up() -> None:
    try:
        import ctypes

        ctypes.CDLL(None).prctl(NOT_DUMPABLE, 0, 0, 0, 0)
    except (ImportError, OSError, AttributeError):
        pass  # an interpreter that was built without it


def lines(child: "subprocess.Popen[bytes]", fd: int) -> "Iterator[bytes]":
    """Until the process has ended: what it left running may hold its end of the pipe for ever."""
    held, total = b"", 0
    while total < TOTAL and len(held) < LONGEST:
        ended = child.poll() is not None
        if not select.select([fd], [], [], 0 if ended else 0.1)[0]:
            if ended:
                return
            continue
        data = os.read(fd, 1 << 16)
        if not data:
            return
        total += len(data)
        *whole, held = (held + data).split(b"\n")
        yield from whole
    child.kill()


def parse(line: bytes) -> "dict[str, object]":
    try:
        found = json.loads(line.decode())
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def write_line(channel: int, line: bytes) -> None:
    line += b"\n"
    while line:
        line = line[os.write(channel, line) :]


def run() -> int:
    asked = json.loads(sys.stdin.buffer.read().decode())
    channel = os.dup(1)
    os.set_inheritable(channel, False)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)  # all that a test prints

    import pytest

    def tell(fields: "dict[str, object]") -> None:
        write_line(channel, json.dumps(fields).encode())

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
    sys.exit(run() if sys.argv[1:] == ["--inside"] else collect())

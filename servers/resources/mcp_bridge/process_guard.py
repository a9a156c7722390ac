"""Keeps processes from outliving the server that started them. Run without site packages, for it costs memory.

`process_guard.py start -- ARGV...` waits for one byte on standard input and becomes ARGV: its server has written it
down by then. `process_guard.py keep` reads `+PID` and `-PID`, and kills the groups that are left when its input ends.
"""

import contextlib
import os
import signal
import sys


def main(arguments: list[str]) -> int:
    return _keep() if arguments[0] == "keep" else _start(arguments[2:])


def _start(argv: list[str]) -> int:
    if os.read(0, 1) != b"g":
        return 1
    try:
        os.execvp(argv[0], argv)
    except OSError as error:
        sys.stderr.write(f"cannot start {argv[0]}: {error.strerror}\n")
    return 127


def _keep() -> int:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    living: set[int] = set()
    for line in sys.stdin:
        (living.add if line[0] == "+" else living.discard)(int(line[1:]))
    for pid in living:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(pid, signal.SIGKILL)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""Becomes a server process: waits until its parent has written it down, then execs.

Run as a script without site packages, so that it costs milliseconds:
exec_guard.py PARENT FD:FD,... [--activated] [--tied] -- ARGV...    `--tied`: it ends with its parent.
"""

import os
import signal
import sys

PR_SET_PDEATHSIG = 1


def main(arguments: list[str]) -> int:
    split = arguments.index("--")
    options, argv = arguments[:split], arguments[split + 1 :]
    if sys.platform == "linux" and "--tied" in options:
        _die_with_parent()
    # The parent says go once our pid is recorded. End of file: it died before, and no record would name us. It may
    # also have died after that word and before our tie to it: then we have another parent by now.
    if os.read(0, 1) != b"g" or os.getppid() != int(options[0]):
        return 1
    _place_descriptors(options[1])
    if "--activated" in options:
        os.environ["LISTEN_PID"] = str(os.getpid())
    try:
        os.execvp(argv[0], argv)
    except OSError as error:
        sys.stderr.write(f"cannot start {argv[0]}: {error.strerror}\n")
    return 127


def _die_with_parent() -> None:
    import ctypes

    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)


def _place_descriptors(pairs: str) -> None:
    """`7:3,9:4`: descriptor 7 becomes 3, 9 becomes 4; standard input becomes empty."""
    wanted = [tuple(int(number) for number in pair.split(":")) for pair in pairs.split(",") if pair]
    clear = 1 + max((number for pair in wanted for number in pair), default=0)  # of all that they have and shall get
    for source, target in wanted:
        os.dup2(source, clear + target)
        os.close(source)
    for _, target in wanted:
        os.dup2(clear + target, target)
        os.close(clear + target)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

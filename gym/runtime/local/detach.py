"""Starts a program that outlives its starter: a session of its own, no parent to reap it, one descriptor passed on.

Run as a script without site packages: detach.py FD -- ARGV...
"""

import os
import sys

TARGET_FD = 3


def main(arguments: list[str]) -> None:
    descriptor, argv = int(arguments[0]), arguments[2:]
    os.setsid()
    if os.fork():
        return
    if descriptor != TARGET_FD:
        os.dup2(descriptor, TARGET_FD)
        os.close(descriptor)
    os.set_inheritable(TARGET_FD, True)
    os.execv(argv[0], argv)


if __name__ == "__main__":
    main(sys.argv[1:])

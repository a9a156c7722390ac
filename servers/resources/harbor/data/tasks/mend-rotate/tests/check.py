"""Runs the script in folders of its own and prints what came of it as rewards."""

import json
import pathlib
import subprocess
import sys
import tempfile

SCRIPT = "/app/rotate.sh"


def rotated(files, keep, times=1):
    """What is in the folder afterwards, and the last exit code."""
    with tempfile.TemporaryDirectory() as place:
        folder = pathlib.Path(place)
        for name, text in files.items():
            (folder / name).write_text(text)
        for _ in range(times):
            code = subprocess.run(["sh", SCRIPT, place, keep], capture_output=True, timeout=10).returncode
        return {path.name: path.read_text() for path in folder.iterdir()}, code


def keeps_old_ones():
    found, code = rotated({"a.log": "now", "a.log.1": "one", "a.log.2": "two", "other.txt": "x"}, "3")
    return code == 0 and found == {"a.log": "", "a.log.1": "now", "a.log.2": "one", "a.log.3": "two", "other.txt": "x"}


def drops_the_oldest():
    found, code = rotated({"a.log": "now", "a.log.1": "one", "a.log.2": "two"}, "2", times=2)
    return code == 0 and found == {"a.log": "", "a.log.1": "", "a.log.2": "now"}


def takes_blanks():
    found, code = rotated({"my own.log": "now", "my own.log.1": "one"}, "2")
    return code == 0 and found == {"my own.log": "", "my own.log.1": "now", "my own.log.2": "one"}


def takes_an_empty_folder():
    return rotated({}, "2") == ({}, 0)


def refuses_a_wrong_number():
    files = {"a.log": "now"}
    return all(rotated(files, keep) == (files, 2) for keep in ("0", "-1", "two", ""))


CHECKS = (keeps_old_ones, drops_the_oldest, takes_blanks, takes_an_empty_folder, refuses_a_wrong_number)
results = {}
for check in CHECKS:
    try:
        results[check.__name__] = float(check())
    except (OSError, UnicodeDecodeError, subprocess.SubprocessError):
        results[check.__name__] = 0.0
# A script that moves nothing passes some of them: without the first one it is worth nothing.
mean = sum(results.values()) / len(results) if results["keeps_old_ones"] else 0.0
json.dump({"reward": mean, **results}, sys.stdout)

"""Tests that must fail, made of a file's own tests: they read as its own, stand among them, and fail for sure."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from pathlib import Path

import pytest
from controls import PER_FILE, WORD, find_tests, make_controls, spoil
from hypothesis import given
from hypothesis import strategies as st

PATH = "tests/test_a.py"
OWN = '''"""Own tests."""
import unittest

import pytest


@pytest.mark.parametrize("number", [1, 2])
def test_numbers_are_kept(number):
    """A docstring."""
    assert number in (1, 2)


def test_the_last_one_wins(tmp_path):
    with pytest.raises(KeyError):
        {}["x"]


@pytest.mark.skip
def test_that_is_skipped():
    assert False


@pytest.mark.xfail
def test_that_is_known_to_fail():
    assert False


class TestThings(unittest.TestCase):
    def test_equal_things_are_equal(self):
        self.assertEqual(1, 1)

    def testCamelCaseToo(self):
        self.assertTrue(True)


def test_on_one_line(): assert 1


async def test_that_waits():
    assert 1
'''


def run(folder: Path, text: str) -> dict[str, str]:
    (folder / "tests").mkdir(exist_ok=True)
    (folder / PATH).write_text(text)
    argv = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-p", "no:randomly", "-rA", "-q", PATH]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}  # pytest may be beside this environment, not in it
    printed = subprocess.run(argv, cwd=folder, env=env, capture_output=True, text=True, check=False).stdout
    pairs = [
        line.split(" - ")[0].split(" ", 1) for line in printed.splitlines() if line.startswith(("PASSED", "FAILED"))
    ]
    return {name: status for status, name in pairs}


@pytest.mark.parametrize("seed", range(4))
def test_controls_fail_and_the_files_own_tests_pass_as_before(tmp_path: Path, seed: int) -> None:
    own = {name for name, status in run(tmp_path, OWN).items() if status == "PASSED"}
    control = make_controls({PATH: OWN}, random.Random(seed))[PATH]
    found = run(tmp_path, control.text)
    assert len(control.ids) == PER_FILE
    assert {name for name, status in found.items() if status == "PASSED"} == own
    for name in control.ids:
        theirs = [status for one, status in found.items() if one == name or one.startswith(f"{name}[")]
        assert theirs, f"{name} was not seen"
        assert set(theirs) == {"FAILED"}


def test_their_names_are_of_the_files_own_words_and_never_the_same() -> None:
    seen: set[str] = set()
    words = {word for one in find_tests(OWN) for word in WORD.findall(one.name)}
    for seed in range(40):
        for name in make_controls({PATH: OWN}, random.Random(seed))[PATH].ids:
            last = name.rpartition("::")[2]
            seen.add(name)
            assert not last[-3:].isdigit(), "a number at its end tells it from the file's own"
            assert len(set(WORD.findall(last)) - words) <= 1, last
    assert len(seen) > 40


def test_they_stand_among_the_files_own_tests() -> None:
    places = set()
    for seed in range(20):
        control = make_controls({PATH: OWN}, random.Random(seed))[PATH]
        names = [one.id for one in find_tests(control.text)]
        places |= {names.index(name.partition("::")[2]) / len(names) for name in control.ids}
    assert min(places) < 0.2
    assert max(places) > 0.6
    assert len(places) > 4


def test_spoiled_tests_fail_under_their_own_names(tmp_path: Path) -> None:
    before = run(tmp_path, OWN)
    wanted = {f"{PATH}::test_numbers_are_kept", f"{PATH}::TestThings::test_equal_things_are_equal"}
    control = spoil(PATH, OWN, wanted, random.Random(1))
    after = run(tmp_path, control.text)
    assert wanted <= set(control.ids)
    assert set(after) == set(before)
    for name, status in after.items():
        assert status == ("FAILED" if name.partition("[")[0] in control.ids else before[name]), name


@given(st.text(alphabet="deftst_ ():\n\t=1'#@", max_size=200))
def test_any_text_is_given_controls(text: str) -> None:
    control = make_controls({PATH: text})[PATH]
    assert control.ids
    assert spoil(PATH, text, ()).text is not None

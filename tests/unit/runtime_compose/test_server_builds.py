"""A failed build as one paragraph: the image that failed, its step, its last words. Outputs are recorded ones."""

from __future__ import annotations

import pytest

from gym.errors import ProgramFailed, UserError
from gym.runtime.compose.compose_errors import explain
from gym.runtime.compose.server_builds import explain_failure
from tests.support.compose_plans import HOME

TWO_BUILDS = """\
#0 building with "default" instance using docker driver

#3 [greedy internal] load build definition from Dockerfile
#3 DONE 0.0s

#6 [greedy 1/2] FROM docker.io/library/python:3.13-slim
#6 CACHED

#8 [greedy 2/2] RUN echo preparing; echo "no matching distribution" >&2; exit 3
#8 0.136 no matching distribution
#8 0.136 preparing
#8 ERROR: process "/bin/sh -c echo ..." did not complete successfully: exit code: 3

#9 [fine 2/2] RUN sleep 1; echo fine
#9 CANCELED
------
ERROR: failed to solve: process "/bin/sh -c echo ..." did not complete successfully: exit code: 3
"""


def test_the_step_that_failed_is_reported_with_its_own_output_and_no_other() -> None:
    error = explain_failure(TWO_BUILDS, ["fine", "greedy"])
    assert error.image == "greedy"
    assert str(error).splitlines()[:3] == [
        "greedy: its image could not be built; this step failed: "
        'RUN echo preparing; echo "no matching distribution" >&2; exit 3',
        "no matching distribution",
        "preparing",
    ]
    assert "fine" not in error.what


def test_a_long_output_is_cut_to_its_last_lines() -> None:
    noise = "".join(f"#8 0.{number:03} line {number}\n" for number in range(100))
    words = explain_failure(TWO_BUILDS.replace("#8 0.136 no matching distribution\n", noise), ["greedy"]).what
    assert "line 99" in words
    assert "line 50" not in words


def test_a_failure_before_any_step_keeps_the_last_lines() -> None:
    error = explain_failure("#1 transferring\nERROR: target mcqa: failed to solve: no such file", ["mcqa", "x"])
    assert error.image == "mcqa"
    assert "no such file" in error.what


def test_a_full_disk_is_reported_with_what_frees_it() -> None:
    full = TWO_BUILDS.replace("no matching distribution", "write /x: no space left on device")
    assert "docker builder prune" in explain_failure(full, ["greedy"]).hint


def compose_says(text: str) -> ProgramFailed:
    return ProgramFailed(("docker", "compose", "up"), 1, text)


def test_what_the_engine_says_becomes_what_to_do() -> None:
    said = {
        "Bind for 127.0.0.1:11000 failed: port is already allocated": "Port 11000 on 127.0.0.1 is in use",
        "listen tcp4 0.0.0.0:80: bind: address already in use": "port is in use",
        "all predefined address pools have been fully subnetted": "no addresses left",
        "could not find an available, non-overlapping IPv4 address pool": "no addresses left",
        "write /var/lib/docker: no space left on device": "disk is full",
        "range of CPUs is from 0.01 to 2.00, as there are only 2 CPUs available": "more CPUs than there are",
    }
    for words, ours in said.items():
        error = explain(compose_says(f"Error response from daemon: {words}"), ())
        assert ours in error.what, words
        assert error.hint, words


def test_what_is_wrong_with_an_override_is_the_users_to_fix() -> None:
    error = explain(compose_says("services.mcqa Additional property memry is not allowed"), (HOME / "mine.yaml",))
    assert isinstance(error, UserError)
    assert "mine.yaml: services.mcqa Additional property memry is not allowed" in error.what


def test_what_was_not_foreseen_is_passed_on_as_it_is() -> None:
    failed = compose_says("Error response from daemon: the moon is full")
    assert explain(failed, (HOME / "mine.yaml",)) is failed


@pytest.mark.parametrize(
    ("words", "missing"),
    [
        ("error: command 'gcc' failed: No such file or directory", "gcc"),
        ("error: [Errno 2] No such file or directory: 'x86_64-linux-gnu-gcc'", "gcc"),
        ("pycosat.c:22:10: fatal error: Python.h: No such file or directory", "Python.h"),
        ("Git executable not found. Ensure that Git is installed and available.", "git"),
    ],
)
def test_a_program_that_the_image_lacks_is_named_with_where_to_ask_for_it(words: str, missing: str) -> None:
    hint = explain_failure(TWO_BUILDS.replace("no matching distribution", words), ["greedy"]).hint
    assert f"no {missing}:" in hint
    assert "apt.txt" in hint


def test_a_file_that_a_package_lacks_is_not_a_program() -> None:
    words = "FileNotFoundError: [Errno 2] No such file or directory: 'README.md'"
    assert "apt.txt" not in explain_failure(TWO_BUILDS.replace("no matching distribution", words), ["greedy"]).hint

"""What a sandbox may reach while its task is set up, and afterwards."""

from __future__ import annotations

from typing import Any

import pytest
from installing import explain, network_of
from pydantic import ValidationError
from tasks import Task

from gym.wire.sandbox import ExecResult, Network, Output

SETUP = {"commands": ["pip install x"], "hosts": ["pypi.org"]}


def network(given: Any, **fields: Any) -> dict[str, Any]:
    return network_of(Task(**fields), Network.model_validate(given)).model_dump(exclude_defaults=True)


def test_the_hosts_of_a_setup_are_reached_before_the_run_alone() -> None:
    assert network("none", setup=SETUP) == {"setup": {"access": "allow", "allow": ("pypi.org",)}}


def test_a_setup_may_reach_what_the_run_may() -> None:
    found = network({"allow": ["docs.example"]}, setup=SETUP)
    assert (found["allow"], found["setup"]["allow"]) == (("docs.example",), ("pypi.org", "docs.example"))
    assert network("internet", setup=SETUP) == {"access": "internet"}


@pytest.mark.parametrize("setup", [None, {"commands": ["make"]}])
def test_without_hosts_nothing_changes(setup: Any) -> None:
    assert network("none", setup=setup) == {}
    assert network({"setup": "internet"}, setup=setup) == {"setup": {"access": "internet"}}


@pytest.mark.parametrize("bad", [{}, {"commands": []}, {"commands": ["x"], "hosts": ["http://x/"]}, {**SETUP, "x": 1}])
def test_a_setup_that_says_nothing_or_too_much_is_refused(bad: Any) -> None:
    with pytest.raises(ValidationError, match="setup"):
        Task(setup=bad)


def test_what_a_command_said_last_is_in_the_failure() -> None:
    assert explain(ExecResult(exit_code=4, stderr=Output(head=b"no room\n")), 9) == "ended with exit code 4: no room"
    assert explain(ExecResult(timed_out=True, stdout=Output(head=b"x")), 9) == "did not end in 9 s: x"

"""`gym test --sandbox`: real behaviours of a real provider, a line each, and an exit code that says how it went."""

from __future__ import annotations

import functools
import os

import pytest

from gym.broker.conformance import BEHAVIOURS, Behaviour, Harness, run_suite
from gym.cli.commands.test import command
from gym.cli.sandbox import conformance
from gym.errors import InfraError, UserError


async def breaks(harness: Harness) -> None:
    raise AssertionError("found 1, wanted 2")


BREAKS = Behaviour("it adds up", breaks, ())
ISOLATED = Behaviour("it isolates", breaks, ("isolates",))


def trying(monkeypatch: pytest.MonkeyPatch, *behaviours: Behaviour) -> int:
    monkeypatch.setattr(conformance, "run_suite", functools.partial(run_suite, behaviours=behaviours))
    return conformance.try_provider("subprocess")


def test_behaviours_that_pass_and_those_that_do_not_apply(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    assert trying(monkeypatch, *BEHAVIOURS[:2], ISOLATED) == 0
    shown = capfd.readouterr().out
    assert BEHAVIOURS[0].name in shown
    assert "subprocess: 2 passed, 0 failed, 1 skipped" in shown


def test_one_that_fails_says_what_was_found_and_is_exit_code_1(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    assert trying(monkeypatch, BEHAVIOURS[0], BREAKS) == 1
    shown = capfd.readouterr().out
    assert "fail" in shown
    assert "found 1, wanted 2" in shown


def test_nothing_that_passed_is_not_a_success(monkeypatch: pytest.MonkeyPatch) -> None:
    assert trying(monkeypatch, ISOLATED) == 1


def test_servers_and_providers_are_not_tested_at_once() -> None:
    with pytest.raises(UserError, match="--sandbox tests a provider"):
        command(["mcqa"], sandbox="subprocess")


def test_a_provider_that_is_not_here_is_one_paragraph(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{os.devnull}/nothing")
    with pytest.raises(InfraError, match="engine"):
        conformance.try_provider("docker")

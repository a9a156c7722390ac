"""Agents of ours share: `--no-share`, or `share: false` at the top, is the switch; what an instance says wins."""

from __future__ import annotations

from pathlib import Path

import pytest

from gym.config import LoadRequest, StackConfig, load_stack, search_roots
from gym.plan import make_plan
from gym.plan.shared_processes import share_processes, shared_processes
from tests.support.config_tree import ConfigTree

NAMES = ("mcqa", "simple_weather", "stateful_counter")
OWN = "mcqa_simple_agent.share=false"


def load(cwd: Path, *overrides: str, share: bool | None = None) -> StackConfig:
    roots = search_roots(cwd, {})
    return load_stack(
        LoadRequest(names=NAMES, model="scripted", overrides=overrides, share=share, cwd=cwd, roots=roots)
    )


def shares(stack: StackConfig) -> dict[str, bool | None]:
    return {one.name: one.container.share for one in stack.instances}


def together(stack: StackConfig) -> list[list[str]]:
    return [[one.name for one in each] for each in shared_processes(share_processes(make_plan(stack))).values()]


AGENTS = [f"{name}_simple_agent" for name in NAMES]


def test_the_switch_reaches_agents_and_the_scripted_model_and_no_verifier(tmp_path: Path) -> None:
    assert set(shares(load(tmp_path)).values()) == {None}
    for share in (True, False):
        typed = load(tmp_path, share=share)
        assert shares(typed) == dict.fromkeys(["policy_model", *AGENTS], share) | dict.fromkeys(NAMES, None)
        (tmp_path / "env.yaml").write_text(f"share: {str(share).lower()}\n")
        assert load(tmp_path).instances == typed.instances
        (tmp_path / "env.yaml").unlink()


@pytest.mark.parametrize(("share", "expected"), [(None, [AGENTS]), (True, [AGENTS]), (False, [])])
def test_agents_of_ours_share_unless_it_is_switched_off(
    tmp_path: Path, share: bool | None, expected: list[list[str]]
) -> None:
    assert together(load(tmp_path, share=share)) == expected


def test_what_an_instance_says_wins(tmp_path: Path) -> None:
    assert together(load(tmp_path, OWN)) == together(load(tmp_path, OWN, share=True)) == [AGENTS[1:]]
    assert together(load(tmp_path, *(f"{name}.share=true" for name in AGENTS), share=False)) == [AGENTS]
    assert shares(load(tmp_path, "mcqa.share=true", share=False))["mcqa"] is True


def test_an_agent_of_another_author_shares_where_it_says_so_itself(tree: ConfigTree) -> None:
    tree.server("servers/agents/looper")
    tree.write("mine.yaml", "mine: {responses_api_agents: {looper: {}}}\n")
    assert shares(tree.load(files=("mine.yaml",), share=True)) == {"mine": None}


def test_a_share_that_is_not_yes_or_no_is_reported(tree: ConfigTree) -> None:
    (problem,) = tree.problems("share: perhaps")
    assert "share: must be true or false; found text" in problem


@pytest.mark.parametrize("share", [None, True, False])
def test_a_server_is_given_no_setting_for_it(tmp_path: Path, share: bool | None) -> None:
    plan = make_plan(load(tmp_path, share=share))
    assert {one.name: one.digest for one in plan.services} == {
        one.name: one.digest for one in make_plan(load(tmp_path)).services
    }

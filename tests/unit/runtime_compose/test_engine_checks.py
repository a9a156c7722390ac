"""What doctor says of an engine: numbers that are there, and a command wherever something is short."""

from __future__ import annotations

from pathlib import Path

import pytest

from gym import labels
from gym.runtime.compose.engine_checks import disk_left, examine_engine, limits_enforced, networks_left, sandboxes_left


@pytest.mark.parametrize(
    ("used", "pools", "level", "found"),
    [
        (3, [{"Base": "10.200.0.0/16", "Size": 26}], "ok", "1021 of 1024 left"),
        (27, None, "warn", "4 of 31 left"),
        (31, None, "fail", "0 of 31 left"),
        (2, [{"Base": "10.0.0.0/24", "Size": 26}, {"Base": "10.1.0.0/26", "Size": 27}], "warn", "4 of 6 left"),
    ],
)
def test_networks_are_counted_against_the_pools(
    used: int, pools: list[dict[str, object]] | None, level: str, found: str
) -> None:
    finding = networks_left([{}] * used, pools)
    assert (finding.level, finding.found) == (level, found)
    assert bool(finding.fix) == (level != "ok")


def test_a_limit_that_is_not_enforced_is_named() -> None:
    (finding,) = limits_enforced({"MemoryLimit": True, "CpuCfsQuota": False, "PidsLimit": False})
    assert finding.level == "warn"
    assert finding.found == "not enforced: cpus, pids"
    assert finding.fix


def test_enforced_limits_are_fine() -> None:
    (finding,) = limits_enforced({"MemoryLimit": True, "CpuCfsQuota": True, "PidsLimit": True, "CgroupVersion": "2"})
    assert finding.level == "ok"
    assert "cgroup v2" in finding.found


def test_the_disk_of_an_engine_elsewhere_is_its_own_affair(tmp_path: Path) -> None:
    assert disk_left(tmp_path / "nowhere").level == "ok"
    assert "GB free" in disk_left(tmp_path).found


def test_without_an_engine_there_is_one_finding(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/nothing")
    (finding,) = examine_engine()
    assert finding.level == "warn"
    assert "scripts/docker-engine" in finding.fix
    monkeypatch.setattr("gym.engine.SCRIPT", tmp_path / "nothing")  # as where the package was installed
    (finding,) = examine_engine()
    assert "scripts" not in finding.fix


def test_a_sandbox_past_its_time_is_found() -> None:
    fresh = {"Names": ["/gym-a"], "Labels": {labels.SANDBOX: "a", labels.STACK: "one", labels.SANDBOX_EXPIRES: "2000"}}
    late = {"Names": ["/gym-b"], "Labels": {labels.SANDBOX: "b", labels.STACK: "two", labels.SANDBOX_EXPIRES: "900.5"}}
    odd = {"Names": ["/gym-c"], "Labels": {labels.SANDBOX: "c", labels.STACK: "two", labels.SANDBOX_EXPIRES: "soon"}}
    posing = {"Names": ["/another"], "Labels": late["Labels"]}  # labels of the image that it was made from
    assert sandboxes_left([fresh, odd, posing], 1000.0) == ("ok", "sandboxes", "2 on this engine, of 2 stacks", "")
    assert sandboxes_left([fresh], 1000.0).found == "1 on this engine, of 1 stack"
    found = sandboxes_left([fresh, late, odd, posing], 1000.0)
    assert (found.level, found.found) == ("warn", "1 of 3 are past their time")
    assert found.fix == "docker rm -f gym-b"

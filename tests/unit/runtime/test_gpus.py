"""GPUs: counted by their devices, or by what the engine says. A stack that asks for too many is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gym.cli.machine_checks import check_gpu
from gym.config.model import ContainerFacts
from gym.errors import UserError
from gym.runtime.gpus import UNKNOWN, check_gpus, count_engine_gpus, count_gpus
from tests.support.compose_plans import plan_of, service


def test_the_devices_of_this_machine_are_counted(tmp_path: Path) -> None:
    assert count_gpus(tmp_path) == 0
    for name in ("nvidia0", "nvidia1", "nvidiactl", "nvidia-uvm", "sda"):
        (tmp_path / name).touch()
    assert count_gpus(tmp_path) == 2


@pytest.mark.parametrize(
    ("info", "local", "count"),
    [
        ({}, True, 0),
        ({"Runtimes": {"runc": {}}}, True, 0),
        ({"Runtimes": {"nvidia": {}}}, True, 3),
        ({"Runtimes": {"nvidia": {}}}, False, UNKNOWN),
        ({"DiscoveredDevices": [{"ID": "nvidia.com/gpu=0"}, {"ID": "nvidia.com/gpu=all"}, {"ID": "x=1"}]}, True, 1),
        ({"DiscoveredDevices": None, "Runtimes": None}, True, 0),
    ],
)
def test_an_engine_says_what_containers_get(info: dict[str, Any], local: bool, count: int) -> None:
    assert count_engine_gpus(info, here=3, local=local) == count


@pytest.mark.parametrize(("gpus", "there"), [("all", 0), (1, 0), (2, 1), ("2", 1)])
def test_too_few_are_one_sentence(gpus: int | str, there: int) -> None:
    plan = plan_of(service("mcqa", container=ContainerFacts(gpus=gpus)))
    with pytest.raises(UserError, match=r"mcqa asks for GPUs \(`gpus: .*`\), and this machine has (none|1)\."):
        check_gpus(plan, there, "this machine")


@pytest.mark.parametrize(("gpus", "there"), [(None, 0), (0, 0), ("0", 0), ("all", 1), (2, 2)])
def test_enough_are_enough(gpus: int | str | None, there: int) -> None:
    check_gpus(plan_of(service("mcqa", container=ContainerFacts(gpus=gpus))), there, "this machine")


def test_doctor_has_a_line_for_it(tmp_path: Path) -> None:
    finding = check_gpu(tmp_path)
    assert (finding.level, finding.name) == ("ok", "gpu")
    assert "does not start here" in finding.found

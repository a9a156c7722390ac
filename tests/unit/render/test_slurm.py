"""What a plan becomes for Slurm: golden scripts, where replicas go, and settings that cannot be."""

from __future__ import annotations

import subprocess
from typing import Any

import pytest

from gym.config.model import ContainerFacts, SidecarSpec
from gym.errors import UserError
from gym.plan.model import Plan, Service, Sidecar
from gym.render.render_request import RenderRequest
from gym.render.slurm import slurm_texts
from gym.render.slurm_placement import node_request, place
from gym.render.slurm_settings import SlurmSettings, read_slurm_settings, to_megabytes
from tests.support.golden import assert_golden


def instance(name: str, replicas: int = 1, **facts: Any) -> Service:
    return Service(
        name=name,
        slug=name,
        type="resources_servers",
        implementation=name,
        launch="sdk",
        replicas=replicas,
        container=ContainerFacts(**facts),
    )


def plan_of(*services: Service, **settings: Any) -> Plan:
    return Plan(stack="eval", services=services, settings={"slurm": settings} if settings else {})


def test_a_stack_is_one_script_that_asks_for_what_its_replicas_need() -> None:
    plan = plan_of(
        instance("judge", 2, cpus=4, memory="8g", gpus=1),
        instance("mcqa", 4),
        nodes=2,
        partition="gpu",
        account="lab",
        time="8:00:00",
        gres="nvme:1",
        options=["--exclusive"],
    )
    assert_golden("slurm/stack.sbatch", slurm_texts(RenderRequest(plan, {}))["stack.sbatch"])


def test_shards_are_an_array_and_a_job_that_joins_them_once_all_have_succeeded() -> None:
    plan = plan_of(instance("mcqa"), shards=3, rollouts=["mcqa", "--repeats", "4"], output="runs/all.jsonl")
    texts = slurm_texts(RenderRequest(plan, {}))
    for name in ("shards.sbatch", "merge.sbatch", "submit-shards"):
        assert_golden(f"slurm/{name}", texts[name])
        subprocess.run(["bash", "-n"], input=texts[name], text=True, check=True)


@pytest.mark.parametrize("program", ["enroot", "apptainer"])
def test_a_node_may_run_its_servers_in_an_image(program: str) -> None:
    plan = plan_of(instance("mcqa"), container={"program": program, "image": "registry.example/gym:1"}, requeue=False)
    assert_golden(f"slurm/{program}.sbatch", slurm_texts(RenderRequest(plan, {}))["stack.sbatch"])


def test_an_image_of_apptainer_sees_the_gpus_that_were_asked_for() -> None:
    plan = plan_of(instance("judge", 1, gpus=1), container={"program": "apptainer", "image": "gym.sif"})
    assert "apptainer exec --nv --bind" in slurm_texts(RenderRequest(plan, {}))["stack.sbatch"]


def test_replicas_are_spread_and_those_that_run_stay_where_they_are() -> None:
    first = place(plan_of(instance("a", 2), instance("b")), 3)
    assert first == {"router": 0, "console": 0, "a-1": 1, "a-2": 2, "b-1": 1}
    more = place(plan_of(instance("a", 4), instance("b")), 3, first)
    assert {name: more[name] for name in first} == first
    assert more["a-3"] == 0


def test_an_instance_and_its_services_are_on_one_node() -> None:
    spec = SidecarSpec(name="db", port=5432, command=("postgres",))
    plan = plan_of(instance("other", 2), instance("shop", 3))
    plan = plan.model_copy(
        update={"sidecars": (Sidecar(instance="shop", instance_slug="shop", slug="shop-db", spec=spec),)}
    )
    found = place(plan, 3)
    assert {found[name] for name in ("shop-1", "shop-2", "shop-3", "shop-db")} == {found["shop-1"]}


def test_a_node_is_asked_for_as_much_as_the_fullest_one_needs() -> None:
    plan = plan_of(instance("big", 3, cpus=3, memory="2g", gpus=2))
    settings = SlurmSettings(nodes=2)
    asked = node_request(plan, settings, place(plan, 2))
    assert (asked.nodes, asked.cpus, asked.memory, asked.gpus) == (2, 6, 4096, 4)
    assert not asked.holds(node_request(plan, SlurmSettings(), place(plan, 1)))


def test_a_node_that_was_said_to_be_smaller_than_its_replicas_is_refused() -> None:
    plan = plan_of(instance("big", 2, cpus=3))
    with pytest.raises(UserError, match=r"slurm\.cpus is 4, and the replicas of node 1 ask for 6 CPUs"):
        node_request(plan, SlurmSettings(cpus=4), place(plan, 1))
    with pytest.raises(UserError, match="gpus: all"):
        node_request(plan_of(instance("all", gpus="all")), SlurmSettings(), {"all-1": 0})


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"partitoin": "gpu"}, r"slurm\.partitoin: is not a setting of it"),
        ({"time": 5400}, r"slurm\.time: YAML reads times as numbers: write it in quotes"),
        ({"partition": "gpu\n#SBATCH --uid=0"}, r"slurm\.partition: must be one word"),
        ({"options": ["--wrap=a b"]}, r"slurm\.options: must be an option"),
        ({"memory": "lots"}, r"slurm\.memory: must be a size as 16g"),
        ({"nodes": 0}, r"slurm\.nodes: .*greater than or equal to 1"),
        ({"shards": 2}, r"slurm\.shards is 2, and nothing says what they collect"),
        ("gpu", r"slurm: must be a mapping; found 'gpu'"),
    ],
)
def test_a_setting_that_cannot_be_is_named(settings: Any, words: str) -> None:
    with pytest.raises(UserError, match=words):
        slurm_texts(RenderRequest(Plan(stack="eval", services=(instance("mcqa"),), settings={"slurm": settings}), {}))


def test_no_setting_is_one_node_of_the_default_partition() -> None:
    assert read_slurm_settings({}) == SlurmSettings()
    assert [to_megabytes(text) for text in ("512m", "2g", "0.5G", "1073741824")] == [512, 2048, 512, 1024]

"""What the engine has to create: whatever a request says, nothing of it weakens the isolation."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gym.broker.provider import Tags
from gym.broker.providers.docker.create_body import (
    ContainerSetup,
    container_name,
    create_body,
    exec_body,
    labels_to_spec,
    labels_to_tags,
    retagged_name,
    tags_to_labels,
)
from gym.wire.sandbox import Limits, SandboxSpec

PLACE = ContainerSetup(image="sha256:aa", helper="gym-helper-1", cpus=2.0)
TAGS = Tags("one-1", "stack", "inst", "owner", "r-1", 12.5, "", "")
KEYS = frozenset(
    ("NetworkMode", "Privileged", "CapDrop", "CapAdd", "SecurityOpt", "IpcMode", "CgroupnsMode", "PidsLimit", "Memory")
    + ("MemorySwap", "NanoCpus", "OomScoreAdj", "Init", "ReadonlyRootfs", "Tmpfs", "Mounts", "LogConfig", "AutoRemove")
    + ("RestartPolicy", "Ulimits", "Dns", "ReadonlyPaths")
)
words = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=40)
specs = st.builds(
    SandboxSpec,
    image=st.just("python"),
    env=st.dictionaries(words.filter(lambda name: name and "=" not in name), words, max_size=4),
    workdir=st.none() | words,
    user=st.none() | words,
    limits=st.builds(Limits, cpus=st.floats(0.1, 64), disk=st.none() | st.integers(1, 1 << 40)),
    mounts=st.dictionaries(words, st.integers(1, 1 << 30), max_size=3),
    read_only=st.booleans(),
    runtime=st.sampled_from([None, "runsc", "kata"]),
    labels=st.dictionaries(words | st.sampled_from(["gym.stack", "gym.sandbox"]), words, max_size=4),
)


@given(specs)
def test_no_request_changes_what_holds_a_sandbox(spec: SandboxSpec) -> None:
    body = create_body(spec, TAGS, PLACE)
    host = body["HostConfig"]
    assert set(host) - {"Runtime", "StorageOpt"} == KEYS
    assert (host["Privileged"], host["CapDrop"], host["CapAdd"]) == (False, ["ALL"], [])
    assert host["SecurityOpt"] == ["no-new-privileges"]
    assert (host["NetworkMode"], host["IpcMode"], host["AutoRemove"]) == ("none", "private", True)
    assert host["Memory"] == host["MemorySwap"] == spec.limits.memory
    assert host["NanoCpus"] <= 2e9
    assert [(mount["Type"], mount["ReadOnly"], mount["Target"]) for mount in host["Mounts"]] == [
        ("volume", True, "/.gym")
    ]
    assert {"/proc/1", "/proc/sys", "/etc/hosts", "/etc/hostname", "/etc/resolv.conf"} <= set(host["ReadonlyPaths"])
    assert body["Entrypoint"][:2] == ["/.gym/helper", "--guard"]
    assert (body["Cmd"], body["Image"], body["Hostname"]) == ([], "sha256:aa", "one-1")
    assert all("nosuid,nodev" in options for options in host["Tmpfs"].values())
    assert {key: body["Labels"][key] for key in tags_to_labels(TAGS)} == tags_to_labels(TAGS)


@given(specs)
def test_what_was_asked_for_is_read_back_from_the_labels_and_its_values_stand_in_no_label(spec: SandboxSpec) -> None:
    body = create_body(spec, TAGS, PLACE)
    again = labels_to_spec(body["Labels"], body["Env"], "python")
    assert again == spec
    answer = orjson.loads(body["Labels"]["gym.spec"])
    assert answer["env"] == list(spec.env)


def test_a_label_that_is_torn_still_gives_a_sandbox() -> None:
    for torn in ("", "{", "[]", '{"limits": 3}', '{"privileged": true}'):
        assert labels_to_spec({"gym.spec": torn}, (), "python") == SandboxSpec(image="python")


tags_of_anybody = st.builds(
    Tags,
    id=st.just("one-1"),
    stack=st.just("stack"),
    instance=words,
    owner=words,
    rollout=words,
    expires=st.floats(0, 4e9),
    warm=words,
    parent=st.just(""),
    request=words,
)


@given(tags_of_anybody)
def test_tags_are_read_back_from_labels_and_later_ones_from_the_name(tags: Tags) -> None:
    of_labels = labels_to_tags(tags_to_labels(tags))._replace(expires=0)
    assert of_labels == tags._replace(expires=0, request="")  # one that is made for its request has that as its id
    name = retagged_name(tags)
    assert labels_to_tags(tags_to_labels(TAGS), f"/{name}") == tags
    assert name.replace("-", "").replace("_", "").replace(".", "").isalnum()


@pytest.mark.parametrize("name", ["gym-one-1", "gym-one-1.", "gym-one-1.!!", "gym-one-1.WzFd", "gym-one-1.e30", "x"])
def test_a_name_that_says_nothing_leaves_the_labels(name: str) -> None:
    assert labels_to_tags(tags_to_labels(TAGS), name) == TAGS


def test_thread_counts_follow_the_quota_but_an_image_or_a_request_wins() -> None:
    spec = SandboxSpec(image="x", limits={"cpus": 1.5}, env={"GOMAXPROCS": "7"})
    env = create_body(spec, TAGS, PLACE._replace(image_env=frozenset({"MKL_NUM_THREADS"})))["Env"]
    assert "OMP_NUM_THREADS=2" in env
    assert "GOMAXPROCS=7" in env
    assert not any(entry.startswith("MKL_NUM_THREADS") for entry in env)


def test_disk_is_limited_by_the_driver_where_it_can() -> None:
    spec = SandboxSpec(image="x", limits={"disk": "1g"})
    hosts: list[dict[str, Any]] = [
        create_body(spec, TAGS, PLACE._replace(disk_quota=can))["HostConfig"] for can in (True, False)
    ]
    assert hosts[0]["StorageOpt"] == {"size": str(1 << 30)}
    assert "StorageOpt" not in hosts[1]
    assert {"Name": "fsize", "Soft": 1 << 30, "Hard": 1 << 30} in hosts[1]["Ulimits"]


def test_another_users_channel_is_the_helper_and_nothing_more() -> None:
    body = exec_body("nobody")
    assert (body["Privileged"], body["User"], body["Cmd"][0]) == (False, "nobody", "/.gym/helper")
    assert container_name(TAGS) == "gym-one-1"


def test_a_read_only_sandbox_has_a_tmp() -> None:
    host = create_body(SandboxSpec(image="x", read_only=True), TAGS, PLACE)["HostConfig"]
    assert (host["ReadonlyRootfs"], list(host["Tmpfs"])) == (True, ["/tmp"])

"""What a packed environment says of itself, and who can run it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gym import __version__, labels
from gym.config.image_references import is_reference
from gym.errors import UserError
from gym.render.pack import PackManifest, pack_labels, read_manifest, render_pack, series

MANIFEST = PackManifest(
    name="mcqa",
    type="resources_servers",
    server="servers/resources/mcqa",
    config="servers/resources/mcqa/configs/mcqa.yaml",
    along=("servers/agents/simple_agent",),
)
HERE = "linux/amd64"


def read(**changes: Any) -> PackManifest:
    label = json.dumps({**MANIFEST.model_dump(), **changes})
    return read_manifest("team/mcqa:1", {"Labels": {labels.PACK: label}}, HERE, HERE)


@pytest.mark.parametrize(
    "name",
    [
        "mcqa:1.2",
        "team/mcqa:1.2",
        "registry.example.org/team/mcqa",
        "localhost/mcqa",
        "127.0.0.1:5000/team/mcqa:1.2",
        "registry.example.org/mcqa:1@sha256:" + "0" * 64,
    ],
)
def test_a_name_with_a_tag_a_digest_or_a_registry_is_an_images(name: str) -> None:
    assert is_reference(name)


@pytest.mark.parametrize(
    "name",
    [
        "mcqa",
        "team/mcqa",
        "configs/mcqa.yaml",
        "a.b/mcqa.yaml",
        "./mcqa",
        "../mcqa",
        "/x/mcqa",
        "~/mcqa",
        "",
        "M:1",
    ],
)
def test_names_of_servers_and_paths_are_not_images(name: str) -> None:
    assert not is_reference(name)


def test_the_label_comes_back_as_it_was_written_with_what_others_read() -> None:
    label_values = pack_labels(MANIFEST, description="Choices", licence="")
    assert read_manifest("x:1", {"Labels": label_values}, HERE, HERE) == MANIFEST
    assert label_values["org.opencontainers.image.description"] == "Choices"
    assert "org.opencontainers.image.licenses" not in label_values


def test_a_pack_is_the_servers_own_image_and_a_folder() -> None:
    assert render_pack("gym-mcqa:0123") == "FROM gym-mcqa:0123\nCOPY --chown=0:0 pack/ /opt/gym/pack/\n"


def test_an_image_that_is_not_a_pack_is_refused() -> None:
    for config in ({}, {"Labels": None}, {"Labels": {"other": "x"}}):
        with pytest.raises(UserError, match=r"no packed environment.*\n.*gym pack NAME"):
            read_manifest("python:3.13", config, HERE, HERE)


def test_another_version_of_gym_is_named_with_what_to_install() -> None:
    with pytest.raises(UserError, match=rf"packed by compose-gym 9.9.0, and this is {__version__}.*\n.*==9.9.0"):
        read(gym="9.9.0")
    assert read(gym=f"{'.'.join(series(__version__))}.99").name == "mcqa"


def test_versions_of_one_series_understand_one_another() -> None:
    assert series("0.1.2") == series("0.1.9") != series("0.2.0")
    assert series("1.2.0") == series("1.5") != series("2.0")


def test_another_architecture_is_named() -> None:
    config = {"Labels": pack_labels(MANIFEST, description="", licence="")}
    with pytest.raises(UserError, match=r"is for linux/arm64, and this engine runs linux/amd64"):
        read_manifest("x:1", config, "linux/arm64", HERE)


def test_an_image_with_volumes_is_refused() -> None:
    config = {"Labels": pack_labels(MANIFEST, description="", licence=""), "Volumes": {"/data": {}}}
    with pytest.raises(UserError, match=r"declares volumes \(/data\)"):
        read_manifest("x:1", config, HERE, HERE)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"version": 2}, "format 2"),
        ({"name": 3}, "cannot be read: name"),
        ({"server": "/etc"}, "'/etc'"),
        ({"server": "servers/resources/../../x"}, "not such a place"),
        ({"config": "servers/resources/../../../etc/x.yaml"}, "not such a place"),
        ({"along": ["../x"]}, "not such a place"),
    ],
)
def test_a_label_that_cannot_be_meant_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        read(**changes)


def test_a_label_that_is_not_json_is_refused() -> None:
    with pytest.raises(UserError, match="cannot be read"):
        read_manifest("x:1", {"Labels": {labels.PACK: "{"}}, HERE, HERE)

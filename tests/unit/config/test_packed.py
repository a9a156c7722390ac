"""Folders of unpacked images: which one an image runs instead of, and what their configuration asks for."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from gym.config.model import SidecarSpec
from gym.config.packed import NOTE, Packed, pack_findings, pack_of, packed_at, pin_services, read_packed
from tests.support.config_tree import ConfigTree

FOLDER = "servers/resources/mcqa"
NOTED = Packed(
    image="gym-pack-mcqa:0123",
    digest="sha256:4567",
    reference="registry.example/mcqa:1.2",
    config=f"{FOLDER}/configs/mcqa.yaml",
    server=FOLDER,
)


def noted(tree: ConfigTree, **more: Any) -> Path:
    tree.usual_servers()
    (tree.root / NOTE).write_text(json.dumps({**asdict(NOTED), **more}))
    return tree.root / FOLDER


def test_the_folder_of_an_unpacked_image_is_known_and_a_folder_beside_it_is_not_one(tree: ConfigTree) -> None:
    folder = noted(tree)
    agent = tree.root / "servers/agents/mine"
    assert packed_at(folder) == NOTED
    assert packed_at(agent) is None
    assert pack_of(agent) == pack_of(folder) == tree.root
    assert pack_of(None) is None


@pytest.mark.parametrize("text", ["", "[]", '{"image": 1}'])
def test_a_note_that_is_none_of_ours_means_nothing(tmp_path: Path, text: str) -> None:
    (tmp_path / NOTE).write_text(text)
    assert read_packed(tmp_path) is None


def test_a_packed_server_runs_its_image_and_keeps_its_folder(tree: ConfigTree) -> None:
    folder = noted(tree)
    (found,) = (one for one in tree.load("mcqa", model="scripted").instances if one.type == "resources_servers")
    assert found.container.image == "gym-pack-mcqa:0123"
    assert found.image_digest == "sha256:4567"
    assert found.directory == folder


def test_an_image_that_the_user_names_wins_over_the_packed_one(tree: ConfigTree) -> None:
    noted(tree)
    stack = tree.load("mcqa", model="scripted", overrides=("mcqa.resources_servers.mcqa.image=other:1",))
    (found,) = (one for one in stack.instances if one.type == "resources_servers")
    assert (found.container.image, found.image_digest, found.directory) == ("other:1", "", None)


PINNED = f"sha256:{'0' * 64}"


@pytest.mark.parametrize(
    ("packed", "image"),
    [
        (f"hub:5000/pg:16@{PINNED}", f"hub:5000/pg@{PINNED}"),
        ("hub:5000/pg:16", "hub:5000/pg:16"),
        (f"hub:5000/pg:15@{PINNED}", "hub:5000/pg:16"),  # the user names another image
        ("hub:5000/pg:16@latest", "hub:5000/pg:16"),
        ("build:servers/resources/mcqa/db", "hub:5000/pg:16"),
    ],
)
def test_the_service_that_was_packed_runs_whatever_its_image_s_name_means_by_now(
    tree: ConfigTree, packed: str, image: str
) -> None:
    folder = noted(tree, services={"mcqa.db": packed})
    spec = SidecarSpec(name="db", port=5432, image="hub:5000/pg:16")
    (found,) = pin_services((spec,), "mcqa", folder)
    assert found == spec.model_copy(update={"image": image})
    assert pin_services((spec,), "mcqa", None) == (spec,)


def test_an_environment_of_its_own_asks_for_nothing() -> None:
    text = "m: {resources_servers: {m: {gpus: null, sandbox: {}, x: '${m.y}', y: 1}}}\n"
    assert list(pack_findings({"m.yaml": text}, {"HOME": "/root"})) == []


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("m: {resources_servers: {m: {x: '${oc.env:HOME}'}}}", "reads the variable HOME"),
        ("m: {resources_servers: {m: {x: 'a${ env:TOKEN,none }'}}}", "reads the variable TOKEN"),
        ("m: {resources_servers: {m: {x: '${HOME}'}}}", "reads the variable HOME"),
        ("m: {resources_servers: {m: {x: '${oc.decode:${oc.env:HOME}}'}}}", "reads the variable HOME"),
        ("policy_base_url: http://author.example/v1", "policy_base_url: is a setting of the whole stack"),
        ("judge: {responses_api_models: {openai: {base_url: http://a}}}", "judge: is a model server"),
        ("m: {resources_servers: {m: {gpus: 1}}}", "gpus: devices of this machine"),
        ("m: {resources_servers: {m: {sandbox: {images: ['*'], build: true}}}}", "sandbox: sandboxes, of images"),
        ("m: {secrets: [hf_token], resources_servers: {m: {}}}", "secrets: secrets of this machine"),
        ("m: {resources_servers: {m: {build: /home/me}}}", "build: an image that is built from files"),
        (
            "m: {services: {db: {image: 'pg:16'}}, resources_servers: {m: {}}}",
            "services: db runs the image pg:16 beside it",
        ),
        (
            "m: {services: {db: {build: db}}, resources_servers: {m: {}}}",
            "services: db runs an image built from db beside it",
        ),
        ("config_paths: [/etc/some.yaml]", "config_paths: /etc/some.yaml is a file of this machine"),
        ("config_paths: [../../some.yaml]", "config_paths: ../../some.yaml is a file of this machine"),
        ("m: {resources_servers: {m: {datasets: [{jsonl_fpath: ~/mine}]}}}", "jsonl_fpath: ~/mine is a file"),
        ("m: {{", "cannot be read"),
    ],
)
def test_what_a_configuration_would_take_from_a_machine_is_found(text: str, problem: str) -> None:
    (found,) = pack_findings({"m.yaml": text}, {"HOME": "/root"})
    assert found.startswith(f"m.yaml: {problem}")

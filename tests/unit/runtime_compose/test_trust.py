"""A saved stack made by an attacker: everything that would reach out of its containers is found before it is loaded."""

from __future__ import annotations

import io
import json
import tarfile
from pathlib import Path
from typing import Any

import pytest
import yaml

from gym.errors import UserError
from gym.plan.model import Plan, SandboxPlan, Service
from gym.runtime.compose import archive_images
from gym.runtime.compose.archive import Manifest, find_loosened, load_stack_file, read_saved
from gym.runtime.compose.archive_images import LOADED, rename_images
from gym.runtime.compose.trust import override_findings
from gym.wire.sandbox import Grant
from tests.support.tar_bombs import bare_header, sparse

SERVICE = Service(name="mcqa", slug="mcqa", type="resources_servers", implementation="mcqa", launch="sdk")
PLAN = Plan(stack="gym", services=(SERVICE,))
CONFIG = "1" * 64


def manifest(plan: Plan = PLAN, **fields: Any) -> Manifest:
    return Manifest(plan=plan, images={"mcqa": "gym-mcqa:1"}, base_image="gym-base:1", **fields)


def saved(folder: Path, found: Manifest, tags: tuple[str, ...] = ("gym-mcqa:1", "gym-base:1", "traefik:v3.7")) -> Path:
    path = folder / "file.tar"
    with tarfile.open(path, "w") as archive:
        add(archive, "gym-stack.json", found.model_dump_json().encode())
        add(archive, "images.tar", images(tags))
    return path


def images(tags: tuple[str, ...], **more: bytes) -> bytes:
    whole = io.BytesIO()
    listed = [{"Config": f"blobs/sha256/{CONFIG}", "RepoTags": [tag], "Layers": []} for tag in tags]
    names = [{"io.containerd.image.name": f"docker.io/library/{tag}"} for tag in tags]
    index = [{"digest": "sha256:x", "annotations": one} for one in names]
    with tarfile.open(fileobj=whole, mode="w") as archive:
        add(archive, "index.json", json.dumps({"manifests": index}).encode())
        add(archive, "manifest.json", json.dumps(listed).encode())
        add(archive, "repositories", json.dumps({"python": {"3.13-slim": CONFIG}}).encode())
        for name, data in more.items():
            add(archive, name, data)
    return whole.getvalue()


def add(archive: tarfile.TarFile, name: str, data: bytes) -> None:
    entry = tarfile.TarInfo(name)
    entry.size = len(data)
    archive.addfile(entry, io.BytesIO(data))


ATTACKS = {
    "privileged": True,
    "volumes": ["/:/host"],
    "cap_add": ["SYS_ADMIN"],
    "network_mode": "host",
    "pid": "host",
    "ipc": "host",
    "uts": "host",
    "userns_mode": "host",
    "cgroup": "host",
    "cgroup_parent": "/",
    "devices": ["/dev/sda"],
    "device_cgroup_rules": ["a *:* rwm"],
    "security_opt": ["seccomp=unconfined"],
    "ports": ["0.0.0.0:22:22"],
    "extends": {"file": "/etc/x.yaml", "service": "x"},
    "env_file": "/root/.ssh/id_rsa",
    "label_file": "/root/.ssh/id_rsa",
    "build": {"context": "/"},
    "configs": ["x"],
    "secrets": ["x"],
    "credential_spec": {"file": "x"},
    "image": "python:3.13-slim",
    "user": "0",
    "group_add": ["999"],
    "networks": ["sandboxes"],
    "links": ["x"],
    "external_links": ["other-stack:db"],
    "extra_hosts": ["index.example:1.2.3.4"],
    "dns": "1.2.3.4",
    "sysctls": {"kernel.msgmax": 1},
    "runtime": "runc-root",
    "isolation": "x",
    "container_name": "other-stack-1",
    "volumes_from": ["container:other"],
    "tmpfs": "/x:exec,suid",
    "storage_opt": {"size": "1T"},
    "logging": {"driver": "syslog"},
    "post_start": [{"command": "x", "privileged": True}],
    "provider": {"type": "/bin/sh"},
    "develop": {"watch": []},
    "use_api_socket": True,
    "gpus": "all",
    "read_only": False,
    "cap_drop": [],
    "mem_limit": 0,
    "pids_limit": -1,
    "oom_score_adj": -1000,
    "environment": ["AWS_SECRET_ACCESS_KEY"],
    "command": ["echo", "${AWS_SECRET_ACCESS_KEY}"],
    "labels": {"gym.stack-dir": "/home/other"},
    "deploy": {"resources": {"reservations": {"devices": [{"capabilities": ["gpu"]}]}}},
    "a_key_of_next_year": 1,
}


@pytest.mark.parametrize("key", ATTACKS)
def test_what_reaches_out_of_a_container_is_found_by_its_key(key: str) -> None:
    found = list(override_findings("o.yaml", yaml.safe_dump({"services": {"mcqa": {key: ATTACKS[key]}}})))
    assert len(found) == 1
    assert found[0].startswith(f"o.yaml: mcqa.{key}: ")


@pytest.mark.parametrize(
    "text",
    [
        "include: [/etc/x.yaml]",
        "name: other-stack",
        "volumes: {x: {driver_opts: {type: none, o: bind, device: /}}}",
        "networks: {stack: {external: true, name: other_default}}",
        "secrets: {x: {file: /root/.ssh/id_rsa}}",
        "configs: {x: {file: /root/.ssh/id_rsa}}",
        "models: {x: {}}",
        "services: {mcqa: !override {privileged: true}}",
        "x: &x {privileged: true}\nservices: {mcqa: {<<: *x}}",
        "services: [1]",
        "services: {mcqa: 1}",
        "[1]",
        "\0",
    ],
)
def test_what_is_not_known_to_be_harmless_is_found(text: str) -> None:
    assert list(override_findings("o.yaml", text))


def test_what_only_bounds_a_service_more_needs_no_trust() -> None:
    text = """
x-common: &common {environment: {LEVEL: debug}}
services:
  mcqa: {<<: *common, mem_limit: 2g, cpus: 1.5, pids_limit: 100, read_only: true, labels: {mine: x}, init: true}
  judge: {command: [python, app.py], deploy: {replicas: 2, resources: {limits: {memory: 1g}}}}
"""
    assert list(override_findings("o.yaml", text)) == []


@pytest.mark.parametrize("name", ["../../evil.yaml", "..", ".hidden", "a/b", "", "-f"])
def test_an_override_cannot_choose_where_it_is_written(name: str) -> None:
    assert list(override_findings(name, "services: {}"))


def test_a_broker_from_the_file_would_hold_the_engines_socket(tmp_path: Path) -> None:
    plan = PLAN.model_copy(update={"sandbox": SandboxPlan(grants={"mcqa": Grant()})})
    assert "the engine's socket" in find_loosened(manifest(plan))[0]


def test_a_file_that_is_root_on_the_host_is_refused_before_anything_is_loaded(tmp_path: Path) -> None:
    evil = "services: {mcqa: {privileged: true, volumes: ['/:/host']}}"
    path = saved(tmp_path, manifest(overrides={"o.yaml": evil}))
    with pytest.raises(UserError, match="all rights of this machine") as caught:
        load_stack_file(path, tmp_path / "home")
    assert caught.value.hint.endswith(f"gym load {path} --trust")
    with pytest.raises(UserError, match="--trust --stack mine$"):
        load_stack_file(path, tmp_path / "home", stack="mine")
    assert not (tmp_path / "home").exists()


@pytest.mark.parametrize("change", [{"slug": "../../x"}, {"slug": "-f"}, {"name": "other"}])
def test_names_that_would_become_paths_are_refused(tmp_path: Path, change: dict[str, str]) -> None:
    plan = PLAN.model_copy(update={"services": (SERVICE.model_copy(update=change),)})
    with pytest.raises(UserError, match="is not a saved stack"):
        read_saved(saved(tmp_path, manifest(plan)))


def renamed(data: bytes, wanted: tuple[str, ...], scope: str = "/home") -> tuple[dict[str, str], dict[str, Any]]:
    target = io.BytesIO()
    names = rename_images(io.BytesIO(data), target, frozenset(wanted), scope)
    target.seek(0)
    with tarfile.open(fileobj=target) as archive:
        files = {one: archive.extractfile(one) for one in archive.getnames()}
        return names, {name: json.loads(file.read()) for name, file in files.items() if file is not None}


def test_images_get_names_of_the_loading_stacks_own_so_no_tag_of_another_is_taken() -> None:
    tags = ("gym-base:471c2ad85f92", "python:3.13-slim")
    names, files = renamed(images(tags), tags)
    assert set(names) == set(tags)
    assert all(name.startswith(f"{LOADED}:") for name in names.values())
    assert "repositories" not in files
    text = json.dumps(files)
    assert not any(tag in text for tag in tags)
    assert [one["RepoTags"] for one in files["manifest.json"]] == [[names[tag]] for tag in tags]
    found = [one["annotations"]["io.containerd.image.name"] for one in files["index.json"]["manifests"]]
    assert found == [f"docker.io/library/{names[tag]}" for tag in tags]


def test_two_stacks_never_share_a_name_that_was_loaded() -> None:
    tags = ("gym-base:1",)
    assert renamed(images(tags), tags, "/one")[0] != renamed(images(tags), tags, "/two")[0]


def test_an_image_that_the_stack_does_not_name_is_refused() -> None:
    with pytest.raises(UserError, match="holds the image python:3.13-slim"):
        renamed(images(("gym-base:1", "python:3.13-slim")), ("gym-base:1",))


def test_an_image_that_the_stack_names_must_be_there() -> None:
    with pytest.raises(UserError, match="gym-mcqa:1"):
        renamed(images(("gym-base:1",)), ("gym-base:1", "gym-mcqa:1"))


@pytest.mark.parametrize("name", ["../../etc/cron.d/x", "/etc/passwd", "a/../../b"])
def test_an_archive_with_a_path_that_leaves_it_is_refused(name: str) -> None:
    with pytest.raises(UserError, match="is not a plain file"):
        renamed(images(("gym-base:1",), **{name: b"x"}), ("gym-base:1",))


def test_an_archive_with_a_link_is_refused() -> None:
    whole = io.BytesIO()
    with tarfile.open(fileobj=whole, mode="w") as archive:
        link = tarfile.TarInfo("manifest.json")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        archive.addfile(link)
    with pytest.raises(UserError, match="is not a plain file"):
        renamed(whole.getvalue(), ())


@pytest.mark.parametrize("within", ["the file", "its images"])
@pytest.mark.parametrize("kind", ["sparse", "header", "files"])
def test_a_saved_stack_that_would_fill_a_disk_or_the_memory_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, within: str, kind: str
) -> None:
    monkeypatch.setattr(archive_images, "MAX_BLOBS", 20)
    bombs = {
        "sparse": sparse("gym-stack.json", 1 << 30),
        "header": bare_header("gym-stack.json", b"x", 1 << 30),
        "files": b"".join(bare_header(f"x{number}", tarfile.REGTYPE, 0) for number in range(40)),
    }
    data = bombs[kind] + bytes(1024)
    if within == "the file":
        (tmp_path / "x.tar").write_bytes(data)
        with pytest.raises(UserError, match="plain file|without end|more than"):
            read_saved(tmp_path / "x.tar")
    else:
        with pytest.raises(UserError, match="plain file|without end|more than"):
            renamed(data, ())

"""Every change of a plan between `make_plan` and the engine is made in one place: `gym up` runs what is printed."""

from __future__ import annotations

import builtins
import os
import re
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import orjson
import pytest
import yaml

from gym import labels
from gym.config.model import ContainerFacts, SidecarSpec
from gym.errors import UserError
from gym.plan import Plan, RouterPlan, SandboxPlan, Sidecar, plan_to_text
from gym.runtime.compose.image_sources import read_image_sources
from gym.runtime.compose.layout import Layout
from gym.runtime.compose.prepare import HostFacts, SharingFacts, prepare
from gym.runtime.compose.stack_lock import Lock, Locked
from gym.runtime.protocol import Prepared
from gym.wire.sandbox import Grant
from tests.support.cli import gym
from tests.support.compose_plans import plan_of, service, write_folder
from tests.support.docker import write_server
from tests.support.stub_docker import stub_docker

ROUTER_PORT = re.compile(r"(?<=^router http://127\.0\.0\.1:)\d+", re.MULTILINE)
URL = "http://ada:hunter2@localhost:8000/v1"
SANDBOX = SandboxPlan(grants={"mcqa": Grant()})


def facts_for(plan: Plan, tmp_path: Path, **fields: object) -> HostFacts:
    sources = read_image_sources(plan, tmp_path / "build", tmp_path / "cache")
    return HostFacts(sources=sources, **fields)


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    """One of everything that is changed."""
    folder = write_folder(tmp_path)
    (folder / "requirements.txt").write_text("six\n")
    one = service(
        "mcqa", directory=folder, replicas=2, fields={"api_key": "the-key", "judge_url": URL}, sandbox=Grant()
    )
    other = service("judge", launch="image", directory=None, container=ContainerFacts(image="judge:1"))
    return plan_of(one, other, sandbox=SANDBOX, router=RouterPlan(host="0.0.0.0", needs_token=True))


SECRETS = {"mcqa.api_key": "the-key", "mcqa.judge_url": URL, labels.ENV_TOKEN: "the-token"}


def refuse(*_: object, **__: object) -> None:
    raise AssertionError("not pure")


class NoEnvironment(dict[str, str]):
    __getitem__ = __contains__ = get = __iter__ = copy = refuse  # type: ignore[assignment]


def test_the_same_plan_secrets_and_facts_give_the_same_and_nothing_else_is_asked(
    plan: Plan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    facts = facts_for(plan, tmp_path)
    before = plan.model_copy(deep=True)
    first = prepare(plan, SECRETS, facts)
    with monkeypatch.context() as patched:
        for module, name in (
            *((os, name) for name in ("getenv", "getcwd", "getuid", "open", "stat", "listdir", "scandir", "mkdir")),
            *((time, name) for name in ("time", "monotonic", "time_ns", "sleep")),
            *((subprocess, name) for name in ("Popen", "run")),
            (socket, "socket"),
            *(
                (Path, name)
                for name in ("open", "read_text", "read_bytes", "write_text", "exists", "is_dir", "resolve")
            ),
            (builtins, "open"),
        ):
            patched.setattr(module, name, refuse)
        patched.setattr(os, "environ", NoEnvironment())
        second = prepare(plan, SECRETS, facts)
    assert second == first
    assert plan == before


def test_instances_that_are_alike_share_a_container_where_a_runtime_lets_them(tmp_path: Path) -> None:
    alike = {"directory": write_folder(tmp_path), "implementation": "alike", "container": ContainerFacts(share=True)}
    plan = plan_of(*(service(name, **alike) for name in ("one", "two", "three")))
    apart = prepare(plan, {}, facts_for(plan, tmp_path))
    assert {one.process for one in apart.plan.services} == {""}
    facts = facts_for(plan, tmp_path, sharing=SharingFacts(apart=frozenset(["three"])))
    shared = prepare(plan, {}, facts)
    first, second, third = (one.process for one in shared.plan.services)
    assert (first, first == second, third) == ("alike.shared", True, "")
    assert any(line.startswith("share: ") for line in shared.notices)


def test_each_change_of_the_plan_is_made(plan: Plan, tmp_path: Path) -> None:
    prepared = prepare(plan, SECRETS, facts_for(plan, tmp_path))
    assert prepared.plan.sandbox is not None
    assert prepared.plan.sandbox.provider == "docker"
    fields = prepared.plan.services[0].fields
    assert fields == {"api_key": "secret://mcqa-api_key", "judge_url": "secret://mcqa-judge_url"}
    assert prepared.secrets == {
        "mcqa-api_key": "the-key",
        "mcqa-judge_url": URL.replace("localhost", "host.docker.internal"),
        "gym_token": "the-token",
    }
    assert prepared.images is not None
    assert prepared.images.by_instance["judge"] == "judge:1"
    assert "the-key" not in repr(prepared)
    assert {one.digest for one in prepared.plan.services} == {one.digest for one in plan.services}


def test_a_plan_without_sandboxes_gets_none(tmp_path: Path) -> None:
    plan = plan_of(service("mcqa", directory=write_folder(tmp_path)))
    prepared = prepare(plan, {}, facts_for(plan, tmp_path))
    assert prepared.plan.sandbox is None
    assert (prepared.secrets, prepared.notices) == ({}, ())


def test_another_provider_than_docker_is_refused(plan: Plan, tmp_path: Path) -> None:
    wrong = plan.model_copy(update={"sandbox": SANDBOX.model_copy(update={"provider": "bubblewrap"})})
    with pytest.raises(UserError, match="sandbox_provider is bubblewrap"):
        prepare(wrong, SECRETS, facts_for(plan, tmp_path))


def test_a_router_that_asks_for_a_token_has_to_be_given_one(plan: Plan, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"listen on 0\.0\.0\.0 without a token"):
        prepare(plan, {**SECRETS, labels.ENV_TOKEN: " "}, facts_for(plan, tmp_path))


def notices_of(url: str, tmp_path: Path, **facts: object) -> tuple[str, ...]:
    model = service("policy_model", directory=write_folder(tmp_path), fields={"openai_base_url": url})
    plan = plan_of(model, settings={"policy_base_url": url, "other": "https://x.org"})
    return prepare(plan, {}, facts_for(plan, tmp_path, **facts)).notices


def test_a_url_of_this_machine_is_shown_once_and_without_its_password(tmp_path: Path) -> None:
    (notice,) = notices_of(URL, tmp_path, gateway="172.17.0.1")
    assert "@host.docker.internal:8000/v1 (policy_model.openai_base_url)" in notice
    assert "hunter2" not in notice
    assert "0.0.0.0" not in notice


def test_a_server_that_no_container_can_reach_is_named(tmp_path: Path) -> None:
    (notice,) = notices_of("http://127.0.0.1", tmp_path, gateway="172.17.0.1", loopback_only=frozenset({80}))
    assert "let it listen on 0.0.0.0 or 172.17.0.1" in notice
    assert "gym up --runtime local" in notice


def test_a_url_that_makes_no_sense_is_still_shown(tmp_path: Path) -> None:
    (notice,) = notices_of("http://localhost:99999999/v1", tmp_path, gateway="172.17.0.1")
    assert "host.docker.internal:99999999" in notice


@pytest.fixture
def docker_environ(tmp_path: Path) -> Iterator[dict[str, str]]:
    with stub_docker(tmp_path / "docker") as environ:
        yield {**environ, labels.ENV_CACHE: str(tmp_path / "cache")}


FINE = "app = 1\n"
PUBLISHED = re.compile(r"127\.0\.0\.1:\d+:11001")


def sandboxes(cwd: Path) -> list[str]:
    write_server(cwd, "coder", FINE, config="        domain: other\n        sandbox: {images: ['debian:13']}\n")
    return ["coder", "+coder_model_url=http://localhost:9/v1"]


def host_paths(cwd: Path) -> list[str]:
    folder = write_server(cwd, "mine", FINE, requirements="six\n")
    (folder / "Dockerfile").write_text("ARG GYM_BASE\nFROM ${GYM_BASE}\n")
    (cwd / "rows.jsonl").write_text("{}\n")
    data = f"{{name: rows, type: example, jsonl_fpath: {cwd}/rows.jsonl}}"
    write_server(cwd, "other", FINE, config=f"        domain: other\n        datasets: [{data}]\n")
    return ["mine", "other"]


def replicas_and_secrets(cwd: Path) -> list[str]:
    write_server(cwd, "mine", FINE)
    model = ["--model", "openai", "policy_base_url=http://127.0.0.1:9/v1", "policy_model_name=gpt"]
    return ["mcqa", "mine", *model, "policy_api_key=sk-canary-0123456789", "--replicas", "mcqa=3"]


def prebuilt(cwd: Path) -> list[str]:
    config = "        domain: other\n        image: example.org/mine:2\n        cpus: 2\n        memory: 1g\n"
    write_server(cwd, "mine", FINE, config=config)
    return ["mine"]


def services_beside(cwd: Path) -> list[str]:
    fields = (
        "        domain: other\n        redis: ${service:redis}\n        redis_password: ${oc.env:STORE_PASSWORD}\n"
    )
    folder = write_server(cwd, "mine", FINE, config=fields)
    (folder / "redis").mkdir()
    (folder / "redis" / "Dockerfile").write_text("ARG BASE_IMAGE\nFROM ${BASE_IMAGE}\n")
    with (folder / "configs" / "mine.yaml").open("a") as file:
        file.write("  services:\n    redis: {build: redis, port: 6379, volumes: ['data:/data'], env: ")
        file.write('{REDIS_PASSWORD: "${oc.env:STORE_PASSWORD}"}}\n    mail: {image: "mail:1", port: 25}\n')
    return ["mine"]


@pytest.mark.parametrize("configure", [sandboxes, host_paths, replicas_and_secrets, prebuilt, services_beside])
def test_what_render_prints_is_what_up_gives_to_compose(
    configure: object, tmp_path: Path, docker_environ: dict[str, str]
) -> None:
    """To the byte, but for the port: `gym up` takes a free one, and `gym render` the one that was asked for."""
    assert callable(configure)
    words = configure(tmp_path)
    docker_environ["STORE_PASSWORD"] = "sk-canary-of-the-store"
    rendered = gym("render", *words, "--target", "compose", cwd=tmp_path, env=docker_environ)
    assert rendered.returncode == 0, rendered.stderr
    assert not (tmp_path / ".gym").exists(), "rendering writes nothing"
    assert not (tmp_path / "cache").exists()
    started = start(tmp_path, docker_environ, *words)
    assert PUBLISHED.sub("PORT", rendered.stdout) == PUBLISHED.sub("PORT", started)
    assert len(PUBLISHED.findall(started)) == 1
    assert "sk-canary" not in started
    ran = Layout(tmp_path / ".gym" / "gym").read_plan()
    assert ran is not None
    plan = gym("render", *words, cwd=tmp_path, env=docker_environ).stdout
    assert ROUTER_PORT.sub("", plan) == ROUTER_PORT.sub("", plan_to_text(ran))
    router = gym("render", *words, "--target", "traefik", cwd=tmp_path, env=docker_environ).stdout
    written = (tmp_path / ".gym" / "gym" / "traefik" / "static.yml").read_text()
    assert router.startswith(f"# static.yml\n{written}---\n# dynamic/stack.yml\n")


def test_a_service_is_reached_by_its_instance_and_shares_its_secret(tmp_path: Path) -> None:
    spec = SidecarSpec(name="redis", port=6379, image="redis:7", env={"REDIS_PASSWORD": "the-password"})
    one = Sidecar(instance="mine", instance_slug="mine", slug="mine-redis", spec=spec)
    fields = {"redis": "${service:redis}", "password": "the-password", "url": "redis://:the-password@${service:redis}"}
    plan = plan_of(service("mine", directory=write_folder(tmp_path), fields=fields), sidecars=(one,))
    paths = {"mine.services.redis.env.REDIS_PASSWORD": "the-password", "mine.password": "the-password"}
    prepared = prepare(plan, {**paths, "mine.url": fields["url"]}, facts_for(plan, tmp_path))
    named = prepared.plan.sidecars[0].spec.env["REDIS_PASSWORD"].removeprefix("secret://")
    assert prepared.plan.services[0].fields == {
        "redis": "mine-redis:6379",
        "password": f"secret://{named}",
        "url": "secret://mine-url",
    }
    assert prepared.secrets == {named: "the-password", "mine-url": "redis://:the-password@mine-redis:6379"}
    assert prepared.images is not None
    assert prepared.images.by_instance["mine.redis"] == "redis:7"
    assert "the-password" not in prepared.plan.model_dump_json()


def test_a_service_without_an_image_is_refused(tmp_path: Path) -> None:
    spec = SidecarSpec(name="redis", port=6379, command=("redis-server",))
    one = Sidecar(instance="mine", instance_slug="mine", slug="mine-redis", spec=spec)
    plan = plan_of(service("mine", directory=write_folder(tmp_path)), sidecars=(one,))
    with pytest.raises(UserError, match=r"mine.redis has neither `image` nor `build`"):
        prepare(plan, {}, facts_for(plan, tmp_path))


def test_a_lock_changes_how_images_are_built_and_not_what_is_started(
    tmp_path: Path, docker_environ: dict[str, str]
) -> None:
    write_server(tmp_path, "mine", FINE, requirements="six\n")
    rendered = gym("render", "mine", "--target", "compose", cwd=tmp_path, env=docker_environ).stdout
    image = yaml.safe_load(rendered)["services"]["mine"]["image"]
    locked = Locked(image=image, id="sha256:0", hashed=("six==1.0 --hash=sha256:0",))
    lock = Lock(instances={"mine": locked}, bases={"python:3.13-slim": "sha256:python"}, datasets={})
    (tmp_path / "gym.lock").write_text(lock.model_dump_json())
    started = start(tmp_path, docker_environ, "mine", "--locked")
    assert PUBLISHED.sub("PORT", rendered) == PUBLISHED.sub("PORT", started)
    built = orjson.loads((tmp_path / ".gym" / "gym" / "build" / "docker-bake.json").read_bytes())
    assert "--require-hashes" in Path(built["target"]["mine"]["dockerfile"]).read_text()


def start(cwd: Path, environ: dict[str, str], *words: str) -> str:
    """What `docker compose up` was given by `gym up`."""
    up = gym("up", *words, "--runtime", "compose", "--port", "0", cwd=cwd, env=environ)
    assert "the stub starts nothing" in up.stderr, up.stderr
    return (cwd / "docker" / "started.yaml").read_text("utf-8")


def test_what_is_prepared_holds_no_secret_but_in_its_secrets(plan: Plan, tmp_path: Path) -> None:
    prepared: Prepared = prepare(plan, SECRETS, facts_for(plan, tmp_path))
    text = prepared.plan.model_dump_json() + repr(prepared.images) + repr(prepared.notices)
    assert not any(value in text for value in ("the-key", "hunter2", "the-token"))

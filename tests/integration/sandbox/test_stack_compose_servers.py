"""The sandbox servers as images of one Compose stack, as a user runs them: up, rollouts, down, and nothing is left."""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from gym import labels
from gym.runtime.sandbox_leftovers import TOKENS
from gym.testing import GymStack
from gym.wire.stack_names import CONSOLE, NETWORK, PORT, ROUTER, SANDBOX, project_name
from tests.support.cli import GYM, environment, gym
from tests.support.docker import engine_client, eventually, need_engine, remove_images_of, replicas
from tests.support.sandbox_policy import (
    CARELESS,
    HANDS_OFF,
    SCIENTIFIC,
    SHIPPED,
    Row,
    examples,
    one_at_a_time,
    policy,
    read_rows,
    with_orders,
    write_rows,
)
from tests.support.sandbox_stack import NOTHING, ROW, labelled, listed, write_coder
from tests.support.stacks import files_below

pytestmark = pytest.mark.docker

SERVERS = ("swe", "swe_tools", "mini_swe_agent", "code_gen", "math_with_code")
SCIENCE = "math_with_code.resources_servers.math_with_code.sandbox_build=science"
IMAGE = "python:3.13-slim"
TIMEOUT = 600.0
KNOCK = """
import json, socket, sys
from concurrent.futures import ThreadPoolExecutor

def knock(address):
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host, int(port)), timeout=10).close()
        return True
    except OSError:
        return False

addresses = sys.argv[1:]
with ThreadPoolExecutor(len(addresses)) as pool:
    print(json.dumps([one for one, open in zip(addresses, pool.map(knock, addresses)) if open]))
"""


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GymStack]:
    """All of them at once. `scientific` is a second `code_gen`, whose programs have numpy."""
    need_engine()
    folder = tmp_path_factory.mktemp("servers")
    grant = {"images": [IMAGE], "build": True, "max_memory": "2g", "warm": 0}
    fields = {"entrypoint": "app.py", "domain": "coding", "sandbox": grant, "sandbox_build": "science"}
    scientific = {"scientific": {"resources_servers": {"code_gen": fields}}}
    (folder / "policy.yaml").write_text(json.dumps(policy() | scientific))
    try:
        words = (*SERVERS, SCIENCE)
        with GymStack(*words, model=None, runtime="compose", folder=folder).with_config("policy.yaml") as stack:
            yield stack
    finally:
        assert listed(folder) == []
        assert labelled(folder) == NOTHING
        assert containers_of(folder) == []


def home_of(stack: GymStack) -> Path:
    return stack.folder / ".gym" / "gym"


def containers_of(folder: Path) -> list[str]:
    """Of the stack itself, whatever they are."""
    project = project_name("gym", (folder / ".gym" / "gym").resolve())
    wanted = {"label": f"com.docker.compose.project={project}"}
    with engine_client() as client:
        return [str(one["Id"]) for one in client.api.containers(all=True, filters=wanted)]


def sandboxes_of(folder: Path, instance: str) -> list[str]:
    return [one["id"] for one in listed(folder) if one["instance"] == instance]


def rewards(stack: GymStack, rows: list[Row]) -> list[float]:
    """By `gym rollouts`, in the order of the rows."""
    given, done = stack.folder / "rows.jsonl", stack.folder / "rollouts.jsonl"
    write_rows(given, rows)
    ended = gym("rollouts", str(given), "-o", str(done), "--fresh", cwd=stack.folder, timeout=TIMEOUT)
    assert ended.returncode == 0, ended.stderr + ended.stdout
    found = {one["_ng_task_index"]: one for one in read_rows(done)}
    assert sorted(found) == list(range(len(rows))), ended.stderr
    return [found[at]["reward"] for at in range(len(rows))]


def test_the_gold_patch_is_worth_one_and_no_patch_nothing(stack: GymStack) -> None:
    (tools, *_), (mini, *_) = examples("agents/swe_tools"), examples("agents/mini_swe_agent")
    rows = [tools, mini, with_orders(tools, HANDS_OFF), with_orders(mini, HANDS_OFF)]
    assert rewards(stack, rows) == [1.0, 1.0, 0.0, 0.0]
    assert sandboxes_of(stack.folder, "swe") == []


@pytest.mark.parametrize(
    ("replica", "folder", "package"),
    [("swe-1", "resources/swe", "swebench"), ("mini-swe-agent-1", "agents/mini_swe_agent", "mini-swe-agent")],
)
def test_an_image_holds_nothing_that_its_overrides_leave_out(
    stack: GymStack, replica: str, folder: str, package: str
) -> None:
    lines = (SHIPPED / folder / "overrides.txt").read_text("utf-8").splitlines()
    left_out = {line.partition(";")[0].strip() for line in lines if not line.startswith("#")}
    script = "import importlib.metadata as m; print(*(one.name.lower() for one in m.distributions()))"
    with engine_client() as client:
        output = client.containers.get(replicas(stack.status())[replica]).exec_run(["python", "-c", script]).output
    assert isinstance(output, bytes)
    installed = set(output.decode().split())
    assert package in installed
    assert installed & left_out == set()


def test_a_right_program_is_worth_one_a_wrong_one_nothing_and_the_tool_keeps_its_variables(stack: GymStack) -> None:
    (program, *_), (sums, *_) = examples("resources/code_gen"), examples("resources/math_with_code")
    rows = [
        program,
        with_orders(program, CARELESS),
        one_at_a_time(sums),
        {**one_at_a_time(sums), "expected_result": "169"},
    ]
    assert rewards(stack, rows) == [1.0, 0.0, 1.0, 0.0]


def test_a_program_that_imports_numpy_passes_by_default_and_where_the_image_is_named(stack: GymStack) -> None:
    (row, *_) = examples("resources/code_gen")
    answers = [rule["say"] for rule in rules_of(policy()) if rule["when"].get("user") == SCIENTIFIC]
    content = [{"type": "output_text", "text": answers[0], "annotations": []}]
    message = {"id": "m", "type": "message", "role": "assistant", "status": "completed", "content": content}
    asked = {**row, "response": {"output": [message]}}
    plain, scientific = (reply(stack.url, f"/s/{name}/verify", asked)[0] for name in ("code_gen", "scientific"))
    assert (plain["reward"], scientific["reward"]) == (1.0, 1.0)


def test_another_stack_reaches_no_server_here_and_takes_its_own_sandboxes_alone_when_it_goes_down(
    stack: GymStack, tmp_path: Path
) -> None:
    _, cookies = reply(stack.url, "/s/swe/seed_session", examples("resources/swe")[0])
    write_coder(tmp_path, IMAGE)
    try:
        with GymStack("coder", model=None, runtime="compose", folder=tmp_path) as other:
            reply(other.url, "/s/coder/seed_session", ROW)
            (ours,) = sandboxes_of(stack.folder, "swe")
            assert len(labelled(tmp_path)["containers"]) == 1
            foreign, own = doors(stack.folder), doors(tmp_path)
            foreign.add(f"{gateway(tmp_path)}:{urlsplit(stack.url).port}")  # what the router publishes, from inside
            assert reached_from(tmp_path, "coder", own | foreign) == own
    finally:
        remove_images_of(tmp_path)
    assert (labelled(tmp_path), containers_of(tmp_path)) == (NOTHING, [])
    assert sandboxes_of(stack.folder, "swe") == [ours]
    said, _ = reply(stack.url, "/s/swe/bash", {"command": "echo $((6 * 7))"}, cookies)
    assert said == "42\n"
    reply(stack.url, "/s/swe/close_session", {}, cookies)


def test_no_token_is_in_an_inspection_a_command_line_a_rendered_file_or_a_log(stack: GymStack) -> None:
    _, cookies = reply(stack.url, "/s/swe/seed_session", examples("resources/swe")[0])
    (sandbox,) = sandboxes_of(stack.folder, "swe")
    argv = [GYM, "sandbox", "exec", sandbox, "--", "sleep", "1000"]
    with subprocess.Popen(argv, cwd=stack.folder, env=environment(), stdin=subprocess.DEVNULL) as running:
        try:
            lines = eventually(command_lines, lambda found: "sleep\x001000\0" in found)
            texts = {"command lines": "\n".join(lines), **shown_by_engine(stack), **written_by(stack)}
        finally:
            press_until_it_ends(running)
    reply(stack.url, "/s/swe/close_session", {}, cookies)
    texts["gym logs"] = gym("logs", "--tail", "100000", cwd=stack.folder).stdout
    tokens = tokens_of(stack)
    assert len(tokens) == 5  # of four servers and of people
    leaks = [(where, name) for where, text in texts.items() for name, token in tokens.items() if token in text]
    assert leaks == []


def press_until_it_ends(running: subprocess.Popen[bytes]) -> None:
    """Ctrl-C, as often as it takes: Python drops one that comes while it ends an import."""
    while running.poll() is None:
        running.send_signal(signal.SIGINT)
        with contextlib.suppress(subprocess.TimeoutExpired):
            running.wait(10)


def doors(folder: Path) -> set[str]:
    """Addresses at which the servers of a stack, its console and its router listen, on the network of its servers."""
    with engine_client() as client:
        found = [client.api.inspect_container(one) for one in containers_of(folder)]
    ports = {one["Config"]["Labels"]["com.docker.compose.service"]: _networks(one) for one in found}
    assert {ROUTER, CONSOLE, SANDBOX} <= ports.keys()
    return {
        f"{one['IPAddress']}:{labels.ROUTER_PORT if name == ROUTER else PORT}"
        for name, networks in ports.items()
        for network, one in networks.items()
        if network.endswith(f"_{NETWORK}") or name == SANDBOX
    }


def gateway(folder: Path) -> str:
    """This machine, as the containers of a stack see it."""
    with engine_client() as client:
        networks = _networks(client.api.inspect_container(containers_of(folder)[0]))
    return str(next(one["Gateway"] for one in networks.values() if one["Gateway"]))


def reached_from(folder: Path, instance: str, addresses: set[str]) -> set[str]:
    """Those with which a server of the stack gets a connection."""
    words = ("exec", instance, "--", "python", "-c", KNOCK, *addresses)
    done = gym(*words, cwd=folder, timeout=TIMEOUT)
    assert done.returncode == 0, done.stderr
    return set(json.loads(done.stdout))


def _networks(inspected: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = inspected["NetworkSettings"]["Networks"]
    return found


def reply(url: str, path: str, body: Any, cookies: str = "") -> tuple[Any, str]:
    """Its JSON and the session's cookies. It may have to wait for an image that is built for it."""
    headers = {"content-type": "application/json", "cookie": cookies}
    request = urllib.request.Request(f"{url}{path}", json.dumps(body).encode(), headers)
    with urllib.request.urlopen(request, timeout=TIMEOUT) as answer:
        given = answer.headers.get_all("set-cookie") or ()
        return json.load(answer), "; ".join(one.partition(";")[0] for one in given)


def rules_of(document: dict[str, Any]) -> list[Row]:
    found: list[Row] = document["policy_model"]["responses_api_models"]["scripted"]["rules"]
    return found


def tokens_of(stack: GymStack) -> dict[str, str]:
    """Those in the stack's own file; a server's secret is one of them."""
    tokens = json.loads((home_of(stack) / TOKENS).read_text())
    found: dict[str, str] = {**tokens["instances"], "operator": tokens["operator"]}
    secrets = {path.name: path.read_text().strip() for path in (home_of(stack) / "secrets").iterdir()}
    assert set(tokens["instances"].values()) <= set(secrets.values())
    return found


def command_lines() -> list[str]:
    """Of all processes of this machine; those in containers are among them."""
    lines = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):  # it has ended
            lines.append(path.read_text(errors="replace"))
    return lines


def written_by(stack: GymStack) -> dict[str, str]:
    """Every file of the stack but the two places where tokens are kept."""
    kept = (home_of(stack) / TOKENS, home_of(stack) / "secrets")
    files = {one: text.decode(errors="replace") for one, text in files_below(home_of(stack)).items()}
    texts = {str(one): text for one, text in files.items() if one not in kept and one.parent not in kept}
    assert {"compose.yaml", "config.json"} <= {Path(one).name for one in texts}
    return texts


def shown_by_engine(stack: GymStack) -> dict[str, str]:
    """Of the stack's containers, and of its sandboxes, which have no log."""
    own, sandboxes = containers_of(stack.folder), labelled(stack.folder)["containers"]
    assert len(own) >= len(SERVERS) + 3  # router, console, broker
    assert sandboxes
    with engine_client() as client:
        facts = {f"inspect {one}": json.dumps(client.api.inspect_container(one)) for one in (*own, *sandboxes)}
        return facts | {f"logs {one}": client.api.logs(one).decode(errors="replace") for one in own}

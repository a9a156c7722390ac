"""Agents that solve shipped tasks from end to end: a scripted model types, the `swe` server runs it and judges."""

from __future__ import annotations

import shutil
import site
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import orjson
import pytest

from gym.server import Model
from gym.server.testing import Caller, running
from gym.wire import items
from tests.support.policies import KEY, ref, stand
from tests.support.sandbox_broker import broker_process, listening_socket
from tests.support.swe import GRANT, ROOT, SWE, Process, fields_for, row, server, solution

AGENTS = ROOT / "servers" / "agents"
PROVIDERS = [pytest.param("docker", marks=pytest.mark.docker), "subprocess"]
Script = list[tuple[str, dict[str, Any]]]
TASKS = ("tinyroute", "layers")


class Typist(Model):
    """Calls what the script says, one call an answer, by how many outputs it has seen."""

    async def respond(self, params: dict[str, Any]) -> dict[str, Any]:
        done = sum(item.get("type") == "function_call_output" for item in params["input"])
        script = self.settings.document["script"]
        if done >= len(script):
            return items.response([items.message("That is all.")], model="typist")
        name, arguments = script[done]
        call = items.function_call(name, orjson.dumps(arguments).decode())
        call |= {"generation_token_ids": [done], "prompt_token_ids": [7], "generation_log_probs": [-0.5]}
        return items.response([call], model="typist", usage=items.text_usage(10, 5))


@pytest.fixture(scope="module", params=PROVIDERS)
def provider(request: pytest.FixtureRequest) -> str:
    chosen: str = request.param
    return chosen


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("swe-agents")


@pytest.fixture(scope="module")
def swe(folder: Path, provider: str) -> Iterator[Process]:
    with ExitStack() as stack:
        broker = stack.enter_context(broker_process(folder, provider, grant=GRANT))
        fields = fields_for(provider)
        yield stack.enter_context(server(SWE, folder / "swe.log", fields, name="swe", broker=broker))


@pytest.fixture(scope="session")
def mini_python(tmp_path_factory: pytest.TempPathFactory) -> str:
    """An environment with the package that mini_swe_agent requires, and this one's for the rest."""
    uv = shutil.which("uv", path=str(Path(sys.executable).parent)) or shutil.which("uv")
    if uv is None:
        pytest.skip("uv is not here")
    folder, wanted = tmp_path_factory.mktemp("mini") / "venv", AGENTS / "mini_swe_agent"
    subprocess.run([uv, "venv", "--quiet", "--python", sys.executable, folder], check=True)
    python = str(folder / "bin" / "python")
    asked = ["--requirement", str(wanted / "requirements.txt"), "--override", str(wanted / "overrides.txt")]
    subprocess.run([uv, "pip", "install", "--quiet", "--python", python, *asked], check=True)
    (here,) = (folder / "lib").glob("python*/site-packages")
    (here / "beside.pth").write_text("\n".join(site.getsitepackages()))
    return python


@asynccontextmanager
async def typing(
    swe: Process, log: Path, agent: str, script: Script, python: str, **fields: Any
) -> AsyncIterator[Caller]:
    """The agent, with a model that types the script."""
    async with running(Typist.app({}, name="policy_model", document={"script": list(script)})) as model:
        parts = urlsplit(model)
        document = {
            "policy_model": {"responses_api_models": {"any": {"host": parts.hostname, "port": parts.port}}},
            "swe": {"resources_servers": {"swe": swe.address}},
        }
        references = {
            "model_server": {"type": "responses_api_models", "name": "policy_model"},
            "resources_server": {"type": "resources_servers", "name": "swe"},
        }
        settings = {**references, **fields}
        with server(AGENTS / agent, log, settings, name=agent, document=document, python=python) as process:
            async with Caller(process.url) as caller:
                yield caller


def bash(commands: Sequence[str]) -> Script:
    return [("bash", {"command": command}) for command in commands]


LAST: dict[str, Script] = {
    "mini_swe_agent": bash(["git diff > /tmp/p; echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT && cat /tmp/p"]),
    "swe_tools": [("submit", {})],
    "simple_agent": [],
}


@pytest.mark.parametrize("name", TASKS)
@pytest.mark.parametrize("agent", ["simple_agent", "swe_tools", "mini_swe_agent"])
async def test_a_task_is_solved(swe: Process, folder: Path, mini_python: str, agent: str, name: str) -> None:
    task = row(name)
    last = LAST[agent]
    python = mini_python if agent == "mini_swe_agent" else sys.executable
    script = [*bash(solution(task)), *last]
    async with typing(swe, folder / f"{agent}.log", agent, script, python) as caller:
        reply = await caller.post("/run", task)
    assert reply.status == 200, (reply.body, (folder / f"{agent}.log").read_text()[-2000:])
    assert (reply.body["reward"], reply.body.get("reason")) == (1.0, None)
    assert reply.body["resolved"] is True
    assert reply.body["metadata"]["instance_id"] == task["instance_id"]
    calls = [item for item in reply.body["response"]["output"] if item["type"] == "function_call"]
    assert [one["generation_token_ids"] for one in calls] == [[n] for n in range(len(script))]
    assert reply.body["response"]["usage"]["total_tokens"] >= 15 * len(script)


@pytest.mark.parametrize("agent", ["swe_tools", "mini_swe_agent"])
async def test_a_task_is_solved_by_the_endpoint_that_its_row_brings(
    swe: Process, folder: Path, mini_python: str, agent: str
) -> None:
    task, log = row("tinyroute"), folder / f"{agent}-own.log"
    script = [*bash(solution(task)), *LAST[agent]]

    def answer(body: dict[str, Any]) -> list[items.Item]:
        name, arguments = script[sum(one.get("type") == "function_call_output" for one in body["input"])]
        return [items.function_call(name, orjson.dumps(arguments).decode())]

    async with stand(trainer={"answer": answer}) as made:
        references = {"model_server": ref("responses_api_models", "policy_model")}
        references |= {"resources_server": ref("resources_servers", "swe")}
        document = {**made.document, "swe": {"resources_servers": {"swe": swe.address}}}
        python = mini_python if agent == "mini_swe_agent" else sys.executable
        with server(AGENTS / agent, log, references, name=agent, document=document, python=python) as process:
            async with Caller(process.url) as caller:
                reply = await caller.post("/run", {**task, **made.endpoint(policy_model_name="weights-7")})
    assert reply.status == 200, (reply.body, log.read_text()[-2000:])
    assert reply.body["reward"] == 1.0
    assert made.policy.asked == []
    assert [one.body["model"] for one in made.trainer.asked] == ["weights-7"] * len(script)
    assert KEY.encode() not in reply.reply.body
    assert KEY not in log.read_text()


@pytest.mark.parametrize("agent", ["swe_tools", "mini_swe_agent"])
async def test_doing_nothing_is_worth_nothing(swe: Process, folder: Path, mini_python: str, agent: str) -> None:
    task = row("tinyroute")
    python = mini_python if agent == "mini_swe_agent" else sys.executable
    async with typing(swe, folder / f"{agent}.log", agent, [], python) as caller:
        reply = await caller.post("/run", task)
    assert reply.status == 200, reply.body
    assert (reply.body["reward"], reply.body["reason"]) == (0.0, "the patch is empty")


async def test_view_and_edit_solve_a_task_too(swe: Process, folder: Path) -> None:
    task = row("tinyroute")
    fixed = next(text for path, text in task["build"]["files"].items() if path == "fix/tinyroute/patterns.py")
    script: Script = [
        ("view", {"path": "."}),
        ("view", {"path": "tinyroute/patterns.py", "view_range": [1, 5]}),
        ("view", {"path": "nothing.py"}),
        ("edit", {"command": "create", "path": "tinyroute/patterns.py", "file_text": fixed}),
        ("edit", {"command": "str_replace", "path": "tinyroute/patterns.py", "old_str": "nowhere", "new_str": ""}),
        ("edit", {"command": "insert", "path": "tinyroute/patterns.py", "insert_line": 0, "new_str": "# fixed"}),
        ("bash", {"command": "cd tinyroute"}),
        ("bash", {"command": "pwd; seq 1 100000; exit 3"}),
        ("bash", {"command": "pwd"}),
        ("submit", {}),
    ]
    async with typing(swe, folder / "tools.log", "swe_tools", script, sys.executable, max_output=2000) as caller:
        reply = await caller.post("/run", task)
    assert reply.status == 200, reply.body
    assert (reply.body["reward"], reply.body["response"]["submitted"]) == (1.0, True)
    said = [one["output"] for one in reply.body["response"]["output"] if one["type"] == "function_call_output"]
    assert "tinyroute" in said[0]
    assert said[1].startswith("     1\t")
    assert said[2].startswith("Error: ")
    assert "is not there" in said[2]
    assert "0 times" in said[4]
    assert "     1\t# fixed" in said[5]
    assert "/tinyroute\n1\n2\n" in said[7]
    assert "characters are left out" in said[7]
    assert len(said[7]) < 2200
    assert "The shell had ended" in said[8]


SERVE = "python3 -u -c 'import http.server as h; h.test(h.SimpleHTTPRequestHandler, port=PORT, bind=\"127.0.0.1\")'"
FETCH = """python3 -c 'import time, urllib.request
for _ in range(300):
    try: print(urllib.request.urlopen("http://127.0.0.1:PORT/").status); break
    except OSError: time.sleep(0.1)'"""


async def test_a_server_that_is_started_goes_on_and_is_read_later(swe: Process, folder: Path) -> None:
    with listening_socket() as free:
        port = str(free.getsockname()[1])
    script: Script = [
        ("start_job", {"command": SERVE.replace("PORT", port)}),
        *bash([FETCH.replace("PORT", port)]),
        ("read_job", {"job": 1}),
        ("start_job", {"command": "echo $$ > .git/job; pwd; exit 3"}),
        *bash(["until [ -s .git/job ] && [ ! -e /proc/$(cat .git/job) ]; do sleep 0.05; done"]),
        ("read_job", {"job": 2, "end": True}),
        ("read_job", {"job": 1, "end": True}),
        ("read_job", {"job": 3}),
        ("submit", {}),
    ]
    async with typing(swe, folder / "jobs.log", "swe_tools", script, sys.executable) as caller:
        reply = await caller.post("/run", row("tinyroute"))
    assert reply.status == 200, reply.body
    said = [one["output"] for one in reply.body["response"]["output"] if one["type"] == "function_call_output"]
    assert said[0] == "Job 1 runs."
    assert said[1].strip() == "200"
    assert '"GET / HTTP/1.1" 200' in said[2]
    assert said[2].endswith("[The job runs.]")
    assert said[5].endswith("/testbed\n\n[The job ended with exit code 3.]")
    assert said[6].endswith("[The job was ended by signal 9.]")
    assert said[7] == "Error: there is no job 3; 2 were started."
    assert (reply.body["reward"], reply.body["reason"]) == (0.0, "the patch is empty")


async def test_the_gold_patch_is_graded_without_a_model(swe: Process, folder: Path, mini_python: str) -> None:
    log = folder / "golden.log"
    async with typing(swe, log, "mini_swe_agent", [], mini_python, run_golden=True) as caller:
        reply = await caller.post("/run", row("spans"))
    assert (reply.status, reply.body["reward"]) == (200, 1.0), reply.body


async def test_a_spent_budget_is_named(swe: Process, folder: Path, mini_python: str) -> None:
    script = bash(["true"] * 5)
    async with typing(swe, folder / "b.log", "mini_swe_agent", script, mini_python, step_limit=2) as caller:
        reply = await caller.post("/run", row("tinyroute"))
    assert reply.status == 200, reply.body
    assert reply.body["response"]["truncated_by"] == "LimitsExceeded"
    assert reply.body["reward"] == 0.0

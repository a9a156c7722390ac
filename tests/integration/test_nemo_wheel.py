"""compose-gym-nemo, built and installed alone: what NeMo RL and verl's recipe call, on a stack and on its faults."""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
import sys
import zipfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import orjson
import pytest

import gym as package
from gym.http.pool import HttpClient
from gym.programs import find_program, run_program
from tests.support.cli import environment, gym
from tests.support.fake_stack import FakeStack, Json, failure, fake_stack, rollout
from tests.support.fake_vllm import fake_vllm

ROOT = Path(package.__file__).parents[1]
PROGRAM = ROOT / "tests" / "support" / "nemo_trainer.py"
MODEL = "/admin/models/policy_model/upstreams"
TOKEN = "token-of-the-stack"
STACK = """
policy_model:
  responses_api_models:
    vllm_model: {entrypoint: app.py, base_url: [], api_key: none, model: late, return_token_id_information: true}
judge_model:
  responses_api_models:
    scripted: {entrypoint: app.py}
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    run_program([str(ROOT / "scripts" / "nemo-wheel"), "--out-dir", str(folder)], timeout=300)
    return next(folder.glob("compose_gym_nemo-*.whl"))


@pytest.fixture(scope="module")
def python(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Of an environment that holds the wheel, what it needs and nothing else."""
    venv, uv = tmp_path_factory.mktemp("nemo") / "venv", str(find_program("uv", package="uv"))
    found = venv / "bin" / "python"
    run_program([uv, "venv", "--quiet", "--python", sys.executable, str(venv)])
    constraint = ("--constraint", str(ROOT / "requirements" / "dev.txt"))
    run_program([uv, "pip", "install", "--quiet", "--python", str(found), *constraint, str(wheel)])
    yield found
    shutil.rmtree(venv)


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A stack with a token, whose policy is not served yet."""
    folder = tmp_path_factory.mktemp("stack")
    (folder / "mine.yaml").write_text(STACK)
    (folder / "token.txt").write_text(TOKEN)
    words = ("up", "mcqa", "policy_urls=private", "-c", "mine.yaml", "--runtime", "local", "--port", "0")
    wide = ("--bind", "0.0.0.0", "--token-file", "token.txt")
    try:
        done = gym(*words, *wide, cwd=folder, timeout=180)
        assert done.returncode == 0, done.stderr
        yield json.loads(gym("ps", "--json", cwd=folder).stdout)["router"]
    finally:
        gym("down", cwd=folder)


class Trainer:
    """The program with the wheel."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    async def do(self, *order: Any) -> list[Json]:
        """What it says until the order is done, with that at the end."""
        await self.begin(*order)
        said = [await self.hear()]
        while "done" not in said[-1]:
            said.append(await self.hear())
        return said

    async def error_of(self, *order: Any) -> Json:
        (said,) = await self.do(*order)
        assert said["error"] is not None
        assert "\n" not in said["error"]["text"]
        found: Json = said["error"]
        return found

    async def begin(self, *order: Any) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(orjson.dumps(order) + b"\n")
        await self._process.stdin.drain()

    async def hear(self) -> Json:
        assert self._process.stdout is not None
        line = await asyncio.wait_for(self._process.stdout.readline(), 60)
        assert line, "the trainer's program has ended"
        said: Json = orjson.loads(line)
        return said


@asynccontextmanager
async def trainer(python: Path, url: str, **more: str) -> AsyncIterator[Trainer]:
    own = {key: value for key, value in environment().items() if not key.startswith(("COMPOSE_GYM_", "COV", "PYTHON"))}
    process = await asyncio.create_subprocess_exec(
        python,
        PROGRAM,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**own, "COMPOSE_GYM_URL": url, **more},
        limit=1 << 24,
    )
    try:
        yield Trainer(process)
    finally:
        if process.stdin is not None:
            process.stdin.close()
        await process.wait()


@asynccontextmanager
async def started(python: Path, stack: FakeStack, **more: str) -> AsyncIterator[Trainer]:
    async with trainer(python, stack.url, **{"COMPOSE_GYM_POLICY": "keep", **more}) as found:
        assert (await found.do("start", {}))[-1]["error"] is None
        yield found


def make_rows(count: int, agent: str = "mcqa_simple_agent") -> list[Json]:
    lines = (ROOT / "servers" / "resources" / "mcqa" / "data" / "example.jsonl").read_bytes().splitlines()
    reference = {"type": "responses_api_agents", "name": agent}
    return [{**orjson.loads(lines[0]), "agent_ref": reference, "_rowidx": index} for index in range(count)]


def by_row(said: list[Json]) -> list[Json]:
    return sorted(said, key=lambda line: line.get("row", -1))


async def ask_admin(url: str, method: str, body: Any = None, path: str = MODEL) -> Json:
    http = HttpClient()
    headers = [(b"authorization", f"Bearer {TOKEN}".encode()), (b"content-type", b"application/json")]
    data = b"" if body is None else orjson.dumps(body)
    reply = await http.request(method, url + path, body=data, headers=headers, timeout=30)
    await http.aclose()
    assert reply.status == 200, reply.body
    found: Json = orjson.loads(reply.body)
    return found


def test_the_wheel_has_the_five_names_and_is_not_importable_here(wheel: Path, python: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        facts = archive.read(next(name for name in names if name.endswith("METADATA"))).decode()
    assert {name.partition("/")[0] for name in names if ".dist-info" not in name} == {"nemo_gym"}
    assert [line for line in facts.splitlines() if line.startswith("Requires-Dist")] == [
        "Requires-Dist: aiohttp<4,>=3.12"
    ]
    lonely = (
        "import nemo_gym.cli, nemo_gym.rollout_collection, sys; sys.exit('gym' in sys.modules or 'yaml' in sys.modules)"
    )
    run_program([str(python), "-I", "-c", lonely])
    here = subprocess.run([sys.executable, "-c", "import nemo_gym"], cwd=ROOT, capture_output=True, check=False)
    assert b"No module named 'nemo_gym'" in here.stderr


async def test_the_stack_asks_the_policys_addresses_until_the_training_ends(python: Path, up: str) -> None:
    async with fake_vllm() as one, fake_vllm() as two, trainer(python, up, GYM_TOKEN=TOKEN) as nemo:
        policy = {"policy_base_url": [one.url, two.url], "policy_api_key": "dummy_key", "policy_model_name": "step-7"}
        assert await nemo.do("start", policy) == [{"done": "start", "error": None}]
        view = await ask_admin(up, "GET")
        assert (view["source"], view["base_urls"], view["reached"]) == ("run time", [one.url, two.url], True)
        *said, end = await nemo.do("run", make_rows(8))
        assert end["error"] is None
        assert sorted(line["row"] for line in said) == list(range(8))
        for line in said:
            (item,) = line["result"]["response"]["output"]
            assert len(item["generation_token_ids"]) == len(item["generation_log_probs"]) > 0
            assert isinstance(line["result"]["reward"], float)
        bodies = [body for server in (one, two) for body in server.bodies()]
        assert len(bodies) == 8
        assert {body["model"] for body in bodies} == {"step-7"}
        assert {headers["authorization"] for headers in one.headers + two.headers} == {"Bearer dummy_key"}
        assert (await nemo.do("poll"))[-1]["error"] is None
        states = await ask_admin(up, "GET", path="/servers")
        assert {one["state"] for one in states["servers"]} == {"healthy"}  # what `poll` reads
        await nemo.do("shutdown")
        assert (await ask_admin(up, "GET"))["source"] == "configuration"
        assert "not started" in (await nemo.error_of("poll"))["text"]


async def test_with_the_rows_each_trainer_has_its_own_policy_on_one_stack(python: Path, up: str) -> None:
    ways = {"GYM_TOKEN": TOKEN, "COMPOSE_GYM_POLICY": "rows"}
    async with fake_vllm() as one, fake_vllm() as two:
        async with trainer(python, up, **ways) as first, trainer(python, up, **ways) as second:
            for nemo, server in ((first, one), (second, two)):
                await nemo.do("start", {"policy_base_url": [server.url], "policy_model_name": server.url})
            said = await asyncio.gather(first.do("run", make_rows(3)), second.do("run", make_rows(4)))
        assert [[line["row"] for line in lines if "row" in line] for lines in map(by_row, said)] == [
            [0, 1, 2],
            [*range(4)],
        ]
        for server, count in ((one, 3), (two, 4)):
            assert [body["model"] for body in server.bodies()] == [server.url] * count
    assert (await ask_admin(up, "GET"))["source"] == "configuration"


async def test_another_trainers_push_is_reported_and_its_addresses_stay(python: Path, up: str) -> None:
    async with trainer(python, up, GYM_TOKEN=TOKEN) as nemo:
        assert (await nemo.do("start", {"policy_base_url": "http://127.0.0.1:9/v1"}))[-1]["error"] is None
        await ask_admin(up, "DELETE")
        await ask_admin(up, "PUT", {"base_urls": ["http://127.0.0.1:19/v1"]})  # version 1, as the first was
        error = await nemo.error_of("poll")
        assert "policy_model asks http://127.0.0.1:19/v1 now, not this trainer" in error["text"]
        assert (await nemo.do("shutdown"))[-1]["error"] is None
    assert (await ask_admin(up, "GET"))["base_urls"] == ["http://127.0.0.1:19/v1"]
    await ask_admin(up, "DELETE")


async def test_an_unknown_agent_is_an_error_that_names_the_nearest(python: Path, up: str) -> None:
    async with trainer(python, up, GYM_TOKEN=TOKEN, COMPOSE_GYM_POLICY="keep") as nemo:
        await nemo.do("start", {})
        ((failed,), (nameless,)) = [
            [line["failed"] for line in (await nemo.do("run", rows))[:-1]]
            for rows in (make_rows(1, "mcqa_simple_agen"), [{"_rowidx": 0, "responses_create_params": {}}])
        ]
    assert (failed["type"], failed["status"], failed["kind"]) == ("RolloutFailed", 404, "row")
    assert "Did you mean mcqa_simple_agent" in failed["text"]
    assert (nameless["status"], "names no agent" in nameless["text"]) == (422, True)


@pytest.mark.parametrize(
    ("given", "config", "words"),
    [
        ({}, {}, "asks for a token: set GYM_TOKEN"),
        ({"GYM_TOKEN": "wrong"}, {}, "refuses this token"),
        ({"GYM_TOKEN_FILE": "/nowhere/token"}, {}, "GYM_TOKEN_FILE=/nowhere/token cannot be read"),
        ({"GYM_TOKEN": TOKEN}, {}, "COMPOSE_GYM_POLICY=keep"),
        (
            {"GYM_TOKEN": TOKEN, "COMPOSE_GYM_MODEL": "judge_model"},
            {"policy_base_url": ["http://h/v1"]},
            "vllm_model do",
        ),
        ({"GYM_TOKEN": TOKEN, "COMPOSE_GYM_MODEL": "other"}, {"policy_base_url": ["http://h/v1"]}, "models are:"),
        ({"GYM_TOKEN": TOKEN, "COMPOSE_GYM_POLICY": "hold"}, {}, "one of push, rows, keep"),
        ({"GYM_TOKEN": TOKEN, "COMPOSE_GYM_TIMEOUT": "long"}, {}, "not a number"),
        ({"GYM_TOKEN": TOKEN}, {"compose_gym": {"urls": "x"}}, "no option 'urls': there are url,"),
        ({"COMPOSE_GYM_URL": "127.0.0.1:11000"}, {}, "write COMPOSE_GYM_URL=http://HOST:11000"),
        ({"COMPOSE_GYM_URL": ""}, {}, "nothing says where the stack is: set COMPOSE_GYM_URL"),
        ({"COMPOSE_GYM_URL": "http://127.0.0.1:9"}, {}, "no stack answers at http://127.0.0.1:9"),
    ],
)
async def test_what_is_wrong_at_the_start_is_said_in_one_sentence(
    python: Path, up: str, given: dict[str, str], config: Json, words: str
) -> None:
    async with trainer(python, up, **given) as nemo:
        error = await nemo.error_of("start", config)
    assert error["type"] == "StackError"
    assert words in error["text"]


async def test_a_token_that_is_refused_in_mid_run_is_not_a_reward(python: Path) -> None:
    async with fake_stack() as stack, started(python, stack) as nemo:
        stack.token = "another"
        said = await nemo.do("run", make_rows(1))
        assert (said[0]["failed"]["status"], "GYM_TOKEN" in said[0]["failed"]["text"]) == (401, True)


@pytest.mark.parametrize("where", ["configuration", "head"])
async def test_the_address_may_be_in_the_configuration_or_be_the_head_servers(python: Path, where: str) -> None:
    async with fake_stack() as stack, trainer(python, "", COMPOSE_GYM_POLICY="keep") as nemo:
        port = int(stack.url.rpartition(":")[2])
        head = {"head_server": {"host": "127.0.0.1", "port": port}}
        config = head if where == "head" else {"compose_gym": {"url": stack.url}}
        assert (await nemo.do("start", config))[-1]["error"] is None
        assert (await nemo.do("run", make_rows(1), 0, port if where == "head" else 5000))[0]["row"] == 0


async def test_rollouts_come_in_the_order_in_which_they_finish(python: Path) -> None:
    gates = [asyncio.Event() for _ in range(4)]

    async def wait(row: Json, times: int) -> tuple[int, bytes]:
        await gates[row["_rowidx"]].wait()
        return rollout(row)

    async with fake_stack(wait) as stack, started(python, stack) as nemo:
        await nemo.begin("run", make_rows(4))
        for index in (2, 0, 3, 1):
            gates[index].set()
            assert (await nemo.hear())["row"] == index
        assert await nemo.hear() == {"done": "run", "error": None}


BAD: dict[str, tuple[Any, int, str]] = {
    "a row's fault": (failure(422, "row", retryable=False), 1, "failed (422, row)"),
    "a lost model": (failure(502, "model", retryable=True), 3, "failed (502, model)"),
    "a proxy": ((502, b"Bad Gateway"), 3, "Bad Gateway"),
    "too many": ((429, b"later"), 3, "later"),
    "no route yet": ((404, b"404 page not found\n"), 3, "no route"),
    "no JSON": ((200, b"<html>"), 3, "not with JSON"),
    "no reward": ((200, b'{"response":{"output":[]}}'), 3, "reward None"),
    "no number": ((200, b'{"response":{"output":[]},"reward":NaN}'), 3, "reward nan"),
    "failed softly": ((200, b'{"reward":0.0,"_ng_failure_class":"judge_failed"}'), 3, "judge_failed"),
    "failed for good": ((200, b'{"reward":0,"_ng_failure_class":"x","_ng_failure_terminal":true}'), 1, "failed: x"),
    "not kept": ((200, b'{"reward":0.0,"_ng_no_persist":true}'), 3, "not to keep"),
    "no token ids": (
        (200, b'{"reward":0.0,"response":{"output":[{"type":"message"}]}}'),
        1,
        "return_token_id_information",
    ),
}


async def test_what_only_the_infrastructure_did_is_raised_and_never_a_reward(python: Path) -> None:
    cases, good = list(BAD), len(BAD)

    async def answer(row: Json, times: int) -> tuple[int, bytes]:
        reply: tuple[int, bytes] = rollout(row) if row["_rowidx"] == good else BAD[cases[row["_rowidx"]]][0]
        return reply

    async with fake_stack(answer) as stack, started(python, stack) as nemo:
        said = await nemo.do("run", make_rows(good + 1))
    assert [line["row"] for line in said if "row" in line] == [good]
    failures = [line["failed"] for line in said if "failed" in line]
    assert len(failures) == len(BAD)
    for index, (reply, tries, words) in enumerate(BAD.values()):
        (failed,) = [one for one in failures if words in one["text"]]
        assert (failed["type"], failed["survives_pickle"]) == ("RolloutFailed", True)
        assert failed["status"] == (reply[0] if reply[0] in (422, 429) else max(failed["status"], 500))
        assert [row["_rowidx"] for row in stack.rows].count(index) == tries, words
    assert len(set(stack.ids)) == len(stack.ids)  # each attempt is a rollout of its own


async def test_no_more_connections_than_the_configuration_says(python: Path) -> None:
    inside: list[int] = []
    most: list[int] = []
    two, three = asyncio.Event(), asyncio.Event()

    async def answer(row: Json, times: int) -> tuple[int, bytes]:
        inside.append(row["_rowidx"])
        most.append(len(inside))
        for count, event in ((2, two), (3, three)):
            if len(inside) >= count:
                event.set()
        await two.wait()
        with suppress(TimeoutError):
            await asyncio.wait_for(three.wait(), 0.5)  # where there is no limit, it has been sent already
        inside.remove(row["_rowidx"])
        return rollout(row)

    async with fake_stack(answer) as stack, trainer(python, stack.url, COMPOSE_GYM_POLICY="keep") as nemo:
        await nemo.do("start", {"global_aiohttp_connector_limit_per_host": 2})
        said = await nemo.do("run", make_rows(8))
    assert len([line for line in said if "row" in line]) == 8
    assert max(most) == 2


async def test_an_attempt_that_failed_is_made_again_and_its_verdict_counts(python: Path) -> None:
    async def answer(row: Json, times: int) -> tuple[int, bytes]:
        return failure(503, "lost_session", retryable=True) if times == 1 else rollout(row, reward=0.25)

    async with fake_stack(answer) as stack, started(python, stack) as nemo:
        said = await nemo.do("run", make_rows(2))
    assert sorted((line["row"], line["result"]["reward"]) for line in said[:-1]) == [(0, 0.25), (1, 0.25)]


async def test_a_deadline_travels_with_the_row_and_ends_it(python: Path) -> None:
    async def never(row: Json, times: int) -> tuple[int, bytes]:
        await asyncio.Event().wait()
        return 500, b""

    ways = {"COMPOSE_GYM_TIMEOUT": "0.05", "COMPOSE_GYM_MAX_ATTEMPTS": "1"}
    async with fake_stack(never) as stack, started(python, stack, **ways) as nemo:
        (said, _) = await nemo.do("run", make_rows(1))
        assert (said["failed"]["status"], said["failed"]["kind"]) == (504, "timeout")
        assert await asyncio.wait_for(stack.hung_up.get(), 30) == 0


async def test_what_a_trainer_drops_is_cancelled_at_the_stack(python: Path) -> None:
    async def answer(row: Json, times: int) -> tuple[int, bytes]:
        if row["_rowidx"] != 1:
            await asyncio.Event().wait()
        return rollout(row)

    async with fake_stack(answer) as stack, started(python, stack) as nemo:
        await nemo.begin("run", make_rows(3), 1)
        assert (await nemo.hear())["row"] == 1
        assert await nemo.hear() == {"left": True}
        gone = {await asyncio.wait_for(stack.hung_up.get(), 30) for _ in range(2)}
        assert gone == {0, 2}
        await nemo.begin("go on")
        assert (await nemo.hear())["done"] == "run"


async def test_a_stack_that_is_gone_is_waited_for_and_then_reported(python: Path) -> None:
    async with fake_stack() as stack, started(python, stack, COMPOSE_GYM_MAX_WAIT="0") as nemo:
        address = stack.url
    async with trainer(python, address, COMPOSE_GYM_MAX_WAIT="1.2") as nemo:
        (said, _) = await nemo.do("run", make_rows(1))  # without a start: the environment says where
    assert said["failed"]["status"] == 503
    assert f"no stack answers at {address}" in said["failed"]["text"]


async def test_a_server_that_is_down_and_a_model_without_the_addresses_are_named(python: Path) -> None:
    policy = {"policy_base_url": ["http://127.0.0.1:9/v1"]}
    async with fake_stack() as stack, trainer(python, stack.url) as nemo:
        assert (await nemo.do("start", policy))[-1]["error"] is None
        slow = {"name": "policy_model", "state": "down", "replicas": [{"state": "unhealthy"}]}
        stack.servers = [slow]
        assert (await nemo.do("poll"))[-1]["error"] is None
        stack.servers = [slow, {"name": "mcqa", "state": "down", "replicas": [{"state": "down"}]}]
        assert f"mcqa of {stack.url} does not run" in (await nemo.error_of("poll"))["text"]
        stack.model = {"version": 2, "reached": False}
        assert "has the new addresses" in (await nemo.error_of("start", policy))["text"]


async def test_a_stack_that_is_gone_at_the_end_does_not_hide_how_the_training_ended(python: Path) -> None:
    async with fake_stack() as stack, trainer(python, stack.url) as nemo:
        assert (await nemo.do("start", {"policy_base_url": ["http://127.0.0.1:9/v1"]}))[-1]["error"] is None
        stack.token = "another"
        assert (await nemo.do("shutdown"))[-1]["error"] is None

"""What every resources server of the checkout keeps to, whatever it is about."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import orjson
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from openai.types.responses import FunctionTool

from gym.server.asgi import HotRoutes
from gym.server.testing import Caller, running
from gym.wire.items import function_call, message, response
from gym.wire.rows import AgentRef, Row
from tests.support.shipped import RESOURCES, folder_of, rows_of, shipped_app

ALIASES = {
    "simple_weather": {"example_single_tool_call", "example_simple_weather"},
    "multi_step": {"multineedle", "example_multi_step"},
    "stateful_counter": {"example_stateful_counter", "example_session_state_mgmt"},
    "mcqa": set[str](),
}
every_server = pytest.mark.parametrize("name", RESOURCES)


def test_the_first_servers_are_here() -> None:
    assert set(ALIASES) <= set(RESOURCES)


@every_server
def test_a_server_brings_what_a_reader_and_a_runtime_look_for(name: str) -> None:
    folder = folder_of(name)
    readme = (folder / "README.md").read_text("utf-8").splitlines()
    assert readme[0] == f"# {name}"
    assert readme[2].strip().endswith(".")
    for wanted in ("app.py", "requirements.txt", f"configs/{name}.yaml", "data/example.jsonl", "tests/test_app.py"):
        assert (folder / wanted).is_file(), wanted


@every_server
def test_the_example_has_five_rows_for_its_agent(name: str) -> None:
    rows = rows_of(name)
    assert len(rows) == 5
    assert len({json.dumps(row) for row in rows}) == 5
    for row in rows:
        Row.model_validate(row)
        assert AgentRef.model_validate(row["agent_ref"]).name == f"{name}_simple_agent"
        for tool in row["responses_create_params"].get("tools", ()):
            FunctionTool.model_validate(tool)


def config_files() -> list[Path]:
    return [path for name in RESOURCES for path in sorted((folder_of(name) / "configs").glob("*.yaml"))]


@pytest.mark.parametrize("path", config_files(), ids=lambda path: path.stem)
def test_a_config_brings_the_server_and_its_agent(path: Path) -> None:
    name, instance = path.parents[1].name, path.stem
    told = yaml.safe_load(path.read_text("utf-8"))
    assert list(told) == [instance, f"{instance}_simple_agent"]
    assert list(told[instance]["resources_servers"]) == [name]
    agent = told[f"{instance}_simple_agent"]["responses_api_agents"]["simple_agent"]
    assert agent["resources_server"] == {"type": "resources_servers", "name": instance}
    assert agent["model_server"] == {"type": "responses_api_models", "name": "policy_model"}
    (dataset,) = agent["datasets"]
    assert (folder_of(name).parents[2] / dataset["jsonl_fpath"]).is_file()


@pytest.mark.parametrize(("name", "aliases"), ALIASES.items())
def test_older_names_of_a_server_still_start_it(name: str, aliases: set[str]) -> None:
    assert {path.stem for path in (folder_of(name) / "configs").glob("*.yaml")} == {name, *aliases}


@every_server
async def test_the_rows_offer_tools_that_the_server_has(name: str) -> None:
    with shipped_app(name) as app:
        async with running(app) as url, Caller(url) as caller:
            tools = {one["name"]: one["parameters"] for one in (await caller.get("/tools")).body}
    for row in rows_of(name):
        for offered in row["responses_create_params"].get("tools", ()):
            assert set(offered["parameters"]["properties"]) == set(tools[offered["name"]]["properties"])
            assert set(offered["parameters"]["required"]) == set(tools[offered["name"]]["required"])


@every_server
async def test_an_example_is_seeded_and_verified_with_its_fields_intact(name: str) -> None:
    with shipped_app(name) as app:
        async with running(app) as url:
            for row in rows_of(name):
                async with Caller(url) as caller:
                    assert (await caller.post("/seed_session", row)).status == 200
                    body = row | {"response": response([message("I do not know.")], model="m"), "odd": {"kept": [None]}}
                    told = await caller.post("/verify", body)
                assert told.status == 200
                assert told.body | body == told.body
                assert 0.0 <= told.body["reward"] <= 1.0


@every_server
async def test_a_server_is_healthy_and_says_whether_it_may_be_asked_again(name: str) -> None:
    with shipped_app(name) as app:
        async with running(app) as url, Caller(url) as caller:
            assert (await caller.get("/healthz")).body["status"] == "ok"
            assert (await caller.get("/reverify_mode")).body in ("stateless", "unsupported")


# Whatever a model and a data set may hold, the answer is a reward or names the bad field: never a bug of the server.

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=12)
)
ANYTHING = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=6,
)
TOOLS = ("extract_synonym_values", "get_weather", "increment_counter", "verify")
ARGUMENTS = (
    st.text(max_size=20)
    | ANYTHING.map(json.dumps)
    | st.fixed_dictionaries({"synonym_values": ANYTHING}).map(json.dumps)
    | st.fixed_dictionaries({"synonym_values": st.lists(st.integers(0, 900), max_size=3)}).map(json.dumps)
)
TEXTS = st.text(max_size=30) | st.sampled_from(
    [r"\boxed{A}", r"\boxed{", "Answer: B", "**Answer:** A or B", r"\boxed{\text{C}}", r"\boxed{Mercury}"]
)
ITEMS = (
    TEXTS.map(message)
    | st.builds(function_call, st.sampled_from(TOOLS), ARGUMENTS)
    | st.dictionaries(st.sampled_from(["type", "role", "name", "content", "arguments"]), ANYTHING, max_size=4)
    | st.fixed_dictionaries({"type": st.just("function_call"), "name": st.sampled_from(TOOLS), "arguments": ANYTHING})
)


def fields_of(name: str) -> st.SearchStrategy[dict[str, Any]]:
    """Some fields of a row, replaced by anything."""
    own = sorted(rows_of(name)[0].keys() - {"responses_create_params", "agent_ref"})
    modes = st.sampled_from([None, "lenient_boxed", "lenient_answer_colon", "lenient_answer_colon_md", "no such mode"])
    chosen = {"grading_mode": modes} if name == "mcqa" else {}
    return st.dictionaries(st.sampled_from([*own, "reward", "new"]), ANYTHING, max_size=2).flatmap(
        lambda fields: st.fixed_dictionaries({**{key: st.just(value) for key, value in fields.items()}, **chosen})
    )


@every_server
def test_no_well_formed_request_breaks_a_verifier(name: str) -> None:
    rows = rows_of(name)
    with shipped_app(name) as app, asyncio.Runner() as runner:
        hot = runner.run(app.start())

        @given(row=st.sampled_from(rows), fields=fields_of(name), output=st.lists(ITEMS, max_size=4))
        @settings(max_examples=150, deadline=None, derandomize=True)
        def holds(row: dict[str, Any], fields: dict[str, Any], output: list[dict[str, Any]]) -> None:
            body = row | fields | {"response": response(output, model="m")}
            status, told = runner.run(ask(hot, json.dumps(body).encode()))
            assert status in (200, 422), told
            if status == 200:
                assert type(told["reward"]) is float
            else:
                assert told["error"]["kind"] == "row"

        holds()
        runner.run(app.stop())


async def ask(hot: HotRoutes, body: bytes) -> tuple[int, Any]:
    """Through the same boundary as over HTTP, without the socket."""
    sent: list[Any] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": body}

    async def send(part: Any) -> None:
        sent.append(part)

    await hot({"type": "http", "method": "POST", "path": "/verify", "headers": []}, receive, send)
    return sent[0]["status"], orjson.loads(sent[1]["body"])

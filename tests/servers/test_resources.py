"""What every resources server of the checkout keeps to, whatever it is about."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from openai.types.responses import FunctionTool

from gym.cli.verifying import case_fields
from gym.config import find_server
from gym.config.aliases import other_names
from gym.server import ServerApp
from gym.server.cases import Bench, started
from gym.server.fuzz import ANYTHING, ask
from gym.server.testing import Caller
from gym.wire.items import function_call, message, response
from gym.wire.rows import AgentRef, Row
from tests.support.shipped import RESOURCES, SERVERS, config_of, folder_of, rows_of, shipped_app, why_not_here

# A server's other configurations: the older names of `gym.config.aliases`, and what has settings of its own.
OLDER = {
    "simple_weather": {"example_single_tool_call", "example_simple_weather"},
    "multi_step": {"multineedle", "example_multi_step"},
    "stateful_counter": {"example_stateful_counter", "example_session_state_mgmt"},
    "mcp_weather": {"example_mcp_weather"},
    "multi_turn": {"example_multi_turn", "example_multi_turn_gymnasium"},
    "single_tool_call_multireward": {"example_tool_call_multireward"},
    "single_step_tool_use": {"single_step_tool_use_with_argument_comparison"},
    "workplace_assistant": {"workbench"},
    "math_advanced_calculations": {"multiverse_math_hard"},
    "math_with_judge": {"library_judge_math"},
    "math_with_code": {"python_math_exec"},
    "code_gen": {"comp_coding"},
}
VARIANTS = {
    "format_verification": {"citation_format", "freeform_formatting"},
    "instruction_following": {"ifbench"},
    "nvarc": {"nvarc_inductive", "nvarc_transductive"},
    "openenv": {"openenv_tools"},
    "structeval": {"structeval_nonrenderable"},
    "equivalence_llm_judge": {"lc_judge", "nl2bash-equivalency"},
    "xstest": {"xstest_wildguard"},
}
# The others are fuzzed by tests of their own, which know which texts are worth trying.
FUZZED_HERE = [
    name
    for name in RESOURCES
    if not any("fuzz_verify(" in path.read_text("utf-8") for path in (folder_of(name) / "tests").glob("*.py"))
]
every_server = pytest.mark.parametrize("name", RESOURCES)


def test_the_first_servers_are_here() -> None:
    assert {*OLDER, "mcqa"} <= set(RESOURCES)


@every_server
def test_a_server_brings_what_a_reader_and_a_runtime_look_for(name: str) -> None:
    folder = folder_of(name)
    readme = (folder / "README.md").read_text("utf-8").splitlines()
    assert readme[0] == f"# {name}"
    assert readme[2].strip()
    assert any(line.startswith("It teaches ") for line in readme)
    for fact in ("Row fields", "Reward", "Data"):
        assert any(line.startswith(f"| {fact} |") for line in readme), fact
    assert "Apache 2.0" in next(line for line in readme if line.startswith("| Data |"))
    for wanted in ("app.py", "requirements.txt", f"configs/{name}.yaml", "data/example.jsonl"):
        assert (folder / wanted).is_file(), wanted
    assert any((folder / "tests").glob("test_*.py"))


@every_server
def test_the_example_has_five_rows_for_its_agent(name: str) -> None:
    rows = rows_of(name)
    agents = agents_of(folder_of(name) / "configs" / f"{name}.yaml")
    assert len(rows) == 5
    assert len({json.dumps(row) for row in rows}) == 5
    for row in rows:
        Row.model_validate(row)
        if "agent_ref" in row:
            assert AgentRef.model_validate(row["agent_ref"]).name in agents
        for tool in row["responses_create_params"].get("tools", ()):
            FunctionTool.model_validate(tool)


def config_files() -> list[Path]:
    return [path for name in RESOURCES for path in sorted((folder_of(name) / "configs").glob("*.yaml"))]


def agents_of(path: Path) -> dict[str, dict[str, Any]]:
    document = config_of(path)
    agents = {}
    for instance, block in document.items():
        for fields in block.get("responses_api_agents", {}).values():
            agents[instance] = fields
    return agents


@pytest.mark.parametrize("path", config_files(), ids=lambda path: path.stem)
def test_a_config_brings_the_server_and_its_agent(path: Path) -> None:
    name, instance = path.parents[1].name, path.stem
    document = config_of(path)
    assert next(iter(document)) == instance
    assert list(document[instance]["resources_servers"]) == [name]
    first, *_ = agents_of(path).items()
    agent_name, agent = first
    assert agent_name.startswith(f"{instance}_")
    assert agent["resources_server"] == {"type": "resources_servers", "name": instance}
    assert agent["model_server"] == {"type": "responses_api_models", "name": "policy_model"}
    for dataset in agent["datasets"]:
        if dataset["type"] == "example":
            assert (folder_of(name).parents[2] / dataset["jsonl_fpath"]).is_file()
    assert [one["type"] for one in agent["datasets"]].count("example") == 1


@every_server
def test_every_other_configuration_of_a_server_is_an_older_name_or_a_known_variant(name: str) -> None:
    stems = {path.stem for path in (folder_of(name) / "configs").glob("*.yaml")}
    older = OLDER.get(name, set())
    assert stems == {name, *older, *VARIANTS.get(name, ())}
    assert older <= set(other_names(name, "resources_servers"))


@pytest.mark.parametrize("name", OLDER)
def test_older_names_of_a_server_are_asked_for_and_found(name: str) -> None:
    for older in other_names(name, "resources_servers"):
        assert find_server(older, [SERVERS.parent]).name == name


@asynccontextmanager
async def bench_of(name: str) -> AsyncIterator[Bench]:
    """The server with its own settings, and a judge where it asks for one."""
    with configured_app(name) as (app, fields):
        async with started(app, name, fields) as bench:
            bench.judge.answer = lambda _: "No.\n[[A!=B]]\nINCORRECT\n2_full_refusal"
            yield bench


@contextmanager
def configured_app(name: str) -> Iterator[tuple[ServerApp, dict[str, Any]]]:
    entry = find_server(name, [SERVERS.parent])
    fields = case_fields(entry)
    if reason := why_not_here(name):
        pytest.skip(reason)
    with shipped_app(name) as app:
        yield app, fields


@every_server
async def test_the_rows_offer_tools_that_the_server_has(name: str) -> None:
    async with bench_of(name) as bench, Caller(bench.url) as caller:
        tools = {one["name"]: one["parameters"] for one in (await caller.get("/tools")).body}
    for row in rows_of(name):
        if not tools:
            continue  # the calls are the answer: they are compared, not run
        for offered in row["responses_create_params"].get("tools", ()):
            assert set(offered["parameters"]["properties"]) == set(tools[offered["name"]]["properties"])
            assert set(offered["parameters"]["required"]) == set(tools[offered["name"]]["required"])


@every_server
async def test_an_example_is_seeded_and_verified_with_its_fields_intact(name: str) -> None:
    async with bench_of(name) as bench:
        for row in rows_of(name):
            async with Caller(bench.url) as caller:
                assert (await caller.post("/seed_session", row)).status == 200
                body = row | {"response": response([message("I do not know.")], model="m"), "odd": {"kept": [None]}}
                reply = await caller.post("/verify", body)
            assert reply.status == 200, reply.body
            assert reply.body | body == reply.body
            assert 0.0 <= reply.body["reward"] <= 1.0


@every_server
async def test_a_server_is_healthy_and_says_whether_it_may_be_asked_again(name: str) -> None:
    async with bench_of(name) as bench, Caller(bench.url) as caller:
        assert (await caller.get("/healthz")).body["status"] == "ok"
        assert (await caller.get("/reverify_mode")).body in ("stateless", "unsupported")


# Whatever a model and a data set may hold, the answer is a reward or names the bad field: never a bug of the server.

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


@pytest.mark.parametrize("name", FUZZED_HERE)
def test_no_well_formed_request_breaks_a_verifier(name: str) -> None:
    rows = rows_of(name)
    with configured_app(name) as (app, fields), asyncio.Runner() as runner:
        hot = runner.run(app.configured(fields).start())

        @given(row=st.sampled_from(rows), fields=fields_of(name), output=st.lists(ITEMS, max_size=4))
        @settings(max_examples=150, deadline=None, derandomize=True)
        def holds(row: dict[str, Any], fields: dict[str, Any], output: list[dict[str, Any]]) -> None:
            body = row | fields | {"response": response(output, model="m")}
            status, answer = runner.run(ask(hot, json.dumps(body).encode()))
            assert status in (200, 422), answer
            if status == 200:
                assert type(answer["reward"]) is float
            else:
                assert answer["error"]["kind"] == "row"

        holds()
        runner.run(app.stop())

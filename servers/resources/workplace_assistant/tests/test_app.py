"""workplace_assistant on a real socket: sessions apart, errors as texts, rewards by what is left."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from app import MANY_CALLS, NO_SESSION, WorkplaceAssistant
from hypothesis import given, settings
from hypothesis import strategies as st
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.types import TextContent
from office.desk import Office, load_seed
from office.lacking import find_lacking
from office.outcome import TABLES, differing, replay
from office.schemas import SPECS
from office.toolbox import CHANGING, run_tool
from office.truth import WrongTruth, replay_truth

from gym.errors import UserError
from gym.server import Problem
from gym.server.check_rows import RowChecker
from gym.server.testing import Caller, Rows, read_lines, running
from gym.wire.items import function_call, response

DATA = Path(__file__).parents[1] / "data"
ROWS = read_lines(DATA / "example.jsonl")
CASES = [json.loads(line) for line in (DATA / "verifier_cases.jsonl").read_text("utf-8").splitlines()]
VERDICTS = [
    json.loads(line) for line in (Path(__file__).parent / "frame_verdicts.jsonl").read_text("utf-8").splitlines()
]
SEED = load_seed(DATA / "tables")
NOTE = {"recipient": "a@b.example", "subject": "S", "body": "B"}


@asynccontextmanager
async def office(config: dict[str, Any] | None = None) -> AsyncIterator[Caller]:
    app = WorkplaceAssistant.app(config or {}, name="workplace_assistant")
    async with running(app) as url, Caller(url) as caller:
        yield caller


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
async def test_a_case_of_the_folder_scores_as_it_says(case: dict[str, Any]) -> None:
    async with office(case.get("config")) as caller:
        reply = await caller.post("/verify", case["request"])
    if "expected_error" in case:
        assert reply.status == case["expected_error"]["status"]
        assert reply.body["error"]["kind"] == case["expected_error"]["kind"]
        assert "ground_truth" in reply.body["error"]["message"]
        return
    assert (reply.status, reply.body["reward"]) == (200, case["expected_reward"])
    assert ("reason" in reply.body) == (reply.body["reward"] == 0.0)


async def test_the_27_tools_are_offered_as_the_rows_offer_them(rows: Rows) -> None:
    async with office() as caller:
        tools = (await caller.get("/tools")).body
    assert len(tools) == 27
    assert all(row["responses_create_params"]["tools"] == tools for row in rows)


async def test_two_rollouts_have_two_offices() -> None:
    fields = {"email_id": "00000007", "field": "subject"}
    async with office() as one, Caller(one.url) as other:
        for caller in (one, other):
            await caller.post("/seed_session", ROWS[0])
        assert (await one.post("/email_delete_email", {"email_id": "00000007"})).body == {
            "output": "Email deleted successfully."
        }
        assert (await one.post("/email_get_email_information_by_id", fields)).body == {"output": "Email not found."}
        seen = (await other.post("/email_get_email_information_by_id", fields)).body
    assert seen == {"output": {"subject": SEED.emails.rows[7]["subject"]}}


async def test_what_a_call_breaks_is_reported_to_the_model(rows: Rows) -> None:
    async with office() as caller:
        await caller.post("/seed_session", rows[0])

        async def output_of(tool: str, **arguments: Any) -> Any:
            answered = await caller.post(f"/{tool}", arguments)
            assert answered.status == 200
            return answered.body["output"]

        extra = await output_of("email_get_email_information_by_id", email_id="00000001", field="subject", cc="x")
        assert extra == (
            "Error executing tool 'email_get_email_information_by_id': "
            "EmailTool.get_email_information_by_id() got an unexpected keyword argument 'cc'"
        )
        assert await output_of("company_directory_find_email_address", name=None) == "Name not provided."
        assert await output_of("made_up_tool", x=1) == "Error executing tool 'made_up_tool': 'made_up_tool'"
        assert (await output_of("project_management_search_tasks", task_name="(")).startswith("Error executing tool")
        assert (await caller.post("/email_delete_email", [])).status == 422
        assert (await caller.post("/email_delete_email", b"{")).status == 422


async def test_a_tool_without_a_session_is_refused() -> None:
    async with office() as caller:
        known = await caller.post("/email_delete_email", {"email_id": "00000007"})
        unknown = await caller.post("/made_up_tool", {})
    assert (known.status, known.body["error"]["message"]) == (400, NO_SESSION)
    assert (unknown.status, unknown.body) == (400, {"detail": NO_SESSION})


async def test_a_cell_that_is_empty_is_null() -> None:
    arguments = {"customer_name": SEED.customers.rows[0]["customer_name"]}
    async with office() as caller:
        await caller.post("/seed_session", ROWS[0])
        reply = (await caller.post("/customer_relationship_manager_search_customers", arguments)).body["output"]
    assert reply["customers"][0]["customer_phone"] is None


async def test_verify_needs_no_session_and_may_be_asked_again(rows: Rows) -> None:
    calls = [function_call(one["name"], one["arguments"]) for one in rows[3]["ground_truth"]]
    body = rows[3] | {"response": response(calls, model="m")}
    async with office() as caller:
        assert (await caller.get("/reverify_mode")).body == "stateless"
        assert [(await caller.post("/verify", body)).body["reward"] for _ in range(2)] == [1.0, 1.0]


@pytest.mark.parametrize("strict", [False, True])
async def test_a_row_of_other_tables_is_refused_before_a_policy_works_on_it(rows: Rows, strict: bool) -> None:
    truth = [{"name": "email_delete_email", "arguments": '{"email_id": "00000999"}'}]
    row = rows[0] | {"ground_truth": truth}
    async with office({"strict": strict}) as caller:
        asked = [
            await caller.post("/seed_session", row),
            await caller.post("/verify", row | {"response": response([], model="m")}),
            await caller.post("/seed_session", row | {"ground_truth": truth * (MANY_CALLS + 1)}),
        ]
        good = [await caller.post("/seed_session", one) for one in rows]
    for reply in asked:
        assert (reply.status, reply.body["error"]["kind"], reply.body["error"]["retryable"]) == (422, "row", False)
        for part in ("email_delete_email", "00000999", "Email not found", "`tables` is data/tables"):
            assert part in reply.body["error"]["message"]
    assert [reply.status for reply in good] == [200] * len(rows)


def test_a_truth_that_only_reads_is_an_empty_one() -> None:
    calls = [("email_search_emails", '{"query": "no such words anywhere"}')]
    assert replay_truth(SEED, calls, strict=True) == Office.open(SEED)
    with pytest.raises(WrongTruth, match=r"search_emails.* fails: Error executing"):
        replay_truth(SEED, [("email_search_emails", '{"cc": 1}')], strict=False)


async def test_the_tools_are_the_same_over_mcp(rows: Rows) -> None:
    async with office({"expose_tools_over_mcp": True}) as caller:
        advert = (await caller.post("/seed_session", rows[0])).body["mcp"]
        async with (
            httpx2.AsyncClient(headers=advert["headers"]) as http,
            Client(streamable_http_client(caller.url + advert["url_path"], http_client=http)) as client,
        ):
            listed = {tool.name: tool.input_schema for tool in (await client.list_tools()).tools}
            assert listed == {one["name"]: one["parameters"] for one in (await caller.get("/tools")).body}
            (text,) = (await client.call_tool("email_delete_email", {"email_id": "00000007"})).content
            assert isinstance(text, TextContent)
            assert json.loads(text.text) == {"output": "Email deleted successfully."}
        again = await caller.post("/email_delete_email", {"email_id": "00000007"})
    assert again.body == {"output": "Email not found."}


def test_tables_that_are_not_there_are_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"analytics_data\.csv"):
        load_seed(tmp_path)
    for path in (DATA / "tables").iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    (tmp_path / "emails.csv").write_text("email_id,body\n", "utf-8")
    with pytest.raises(UserError, match="has no column .*subject"):
        load_seed(tmp_path)


def test_tables_lie_in_one_folder_or_as_a_checkout_has_them(tmp_path: Path) -> None:
    for path in (DATA / "tables").iterdir():
        folder = tmp_path / ("raw" if path.name == "email_addresses.csv" else "processed")
        folder.mkdir(exist_ok=True)
        (folder / path.name).write_bytes(path.read_bytes())
    found = load_seed(tmp_path)
    assert (found.addresses, found.visits) == (SEED.addresses, SEED.visits)
    assert found.emails.rows == SEED.emails.rows


def test_sessions_share_the_rows_and_pay_for_what_they_change() -> None:
    one, other = Office.open(SEED), Office.open(SEED)
    run_tool(one, "email_delete_email", {"email_id": "00000007"})
    assert all(getattr(one, name) is getattr(other, name) for name in TABLES if name != "emails")
    assert len(other.emails) == 500
    assert one.emails.rows[0] is other.emails.rows[0]


@pytest.mark.parametrize("verdict", VERDICTS, ids=range(len(VERDICTS)))
def test_the_default_says_what_data_frames_say(verdict: dict[str, Any]) -> None:
    """`frame_verdicts.jsonl`: random calls, odd values among them, and what `DataFrame.equals` of pandas 2.3.2 gave."""
    offices = [replay(SEED, map(tuple, verdict[side])) for side in ("one", "other")]
    assert (differing(*offices, strict=False) == []) is verdict["equal"]


async def test_a_response_of_thousands_of_calls_is_replayed_beside_the_event_loop(rows: Rows) -> None:
    made = [function_call("email_send_email", json.dumps(NOTE)) for _ in range(MANY_CALLS + 1)]
    body = rows[0] | {"response": response(made, model="m")}
    async with office() as caller, Caller(caller.url) as other:
        asked = asyncio.create_task(caller.post("/verify", body))
        assert (await other.get("/healthz")).status == 200
        assert (await asked).body["reward"] == 0.0


def test_the_same_calls_in_any_order_leave_the_same_office_when_strict(rows: Rows) -> None:
    calls = [(one["name"], one["arguments"]) for row in rows for one in row["ground_truth"]]
    offices = [replay(SEED, order) for order in (calls, calls[::-1])]
    assert differing(*offices, strict=True) == []
    assert differing(*offices, strict=False) == ["plots"]


SCALARS = st.none() | st.booleans() | st.integers(-5, 2**40) | st.floats() | st.text(max_size=8)
VALUES = (
    SCALARS
    | st.lists(SCALARS, max_size=2)
    | st.dictionaries(st.text(max_size=3), SCALARS, max_size=2)
    | st.sampled_from(["00000003", "status", "task_id", "body", "2023-12-01", "a.b", "(", "a+b+", "a@b.c", "Won", "30"])
)


@st.composite
def calls(draw: st.DrawFn) -> tuple[str, dict[str, Any]]:
    name = draw(st.sampled_from(sorted(SPECS)))
    names = [*SPECS[name].arguments, "odd", "self"]
    return name, draw(st.dictionaries(st.sampled_from(names), VALUES, max_size=len(names)))


@given(st.lists(calls(), max_size=6))
@settings(max_examples=400, deadline=None, derandomize=True)
def test_any_call_is_answered_and_any_replay_compared(made: list[tuple[str, dict[str, Any]]]) -> None:
    office = Office.open(SEED)
    for name, arguments in made:
        run_tool(office, name, arguments)
        json.dumps(run_tool(office, name, arguments))
    replayed = replay(SEED, [(name, json.dumps(arguments)) for name, arguments in made])
    for strict in (False, True):
        assert differing(replayed, replayed, strict=strict) == []
        assert set(differing(replayed, office, strict=strict)) <= set(TABLES)
        if not any(name in CHANGING for name, _ in made):
            assert differing(replayed, Office.open(SEED), strict=strict) == []


async def check(truth: list[dict[str, Any]], config: dict[str, Any] | None = None) -> list[Problem]:
    row = json.dumps({**ROWS[0], "ground_truth": truth}).encode()
    return await RowChecker.of(WorkplaceAssistant.app(), "workplace_assistant", config or {}).check(row)


@pytest.mark.parametrize("config", [{}, {"strict": True}])
async def test_the_rows_here_fit_the_tables_here(rows: Rows, config: dict[str, Any]) -> None:
    checker = RowChecker.of(WorkplaceAssistant.app(), "workplace_assistant", config)
    assert [await checker.check(json.dumps(row).encode()) for row in rows] == [[]] * len(rows)


async def test_every_id_that_the_tables_lack_is_reported_with_its_table_and_the_setting() -> None:
    task = SEED.tasks.rows[0]["task_id"]
    findings = await check(
        [
            {"name": "email_delete_email", "arguments": '{"email_id": "77777777"}'},
            {"name": "project_management_delete_task", "arguments": json.dumps({"task_id": task})},
            {"name": "calendar_delete_event", "arguments": '{"event_id": "x"}'},
            {"name": "analytics_get_visitor_information_by_id", "arguments": '{"visitor_id": "missing"}'},
        ]
    )
    assert [(one.key, one.what, one.value) for one in findings] == [
        ("ground_truth[0].arguments.email_id", "is not an id of emails.csv", "77777777"),
        ("ground_truth[2].arguments.event_id", "is not an id of calendar_events.csv", "x"),
        ("ground_truth[3].arguments.visitor_id", "is not an id of analytics_data.csv", "missing"),
    ]
    assert all("data/tables; set `tables`" in one.hint for one in findings)


async def test_a_call_that_does_nothing_here_is_reported_where_no_id_is_missing() -> None:
    (problem,) = await check([{"name": "email_send_email", "arguments": "{}"}])
    assert (problem.key, problem.what) == ("ground_truth", "a call does nothing on these tables")
    assert "email_send_email({})" in problem.value


async def test_an_id_that_an_earlier_call_brings_in_is_there() -> None:
    tried = Office.open(SEED)
    run_tool(tried, "email_send_email", NOTE)
    new = tried.emails.rows[-1]["email_id"]
    assert not SEED.emails.has("email_id", new)
    calls = [("email_send_email", json.dumps(NOTE)), ("email_delete_email", json.dumps({"email_id": new}))]
    lacking = list(find_lacking(Office.open(SEED), [*calls, ("email_delete_email", '{"email_id": "x"}')]))
    assert [(one.index, one.id) for one in lacking] == [(2, "x")]

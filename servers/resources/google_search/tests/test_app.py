"""google_search on a real socket with its recorded web: what the tools answer and what the verifier reads."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from answers import first_box, parse_option
from app import GoogleSearch
from hypothesis import given, settings
from hypothesis import strategies as st
from recorded_web import RecordedWeb

from gym.errors import UserError
from gym.server.config import Settings, parse_config
from gym.server.testing import Caller, Rows, running
from gym.wire.items import function_call, message, response

DATA = Path(__file__).parents[1] / "data"
CASES = [json.loads(line) for line in (DATA / "verifier_cases.jsonl").read_text("utf-8").splitlines()]


@asynccontextmanager
async def web(config: dict[str, Any] | None = None) -> AsyncIterator[Caller]:
    fields = {"recorded": "data/web.jsonl", **(config or {})}
    async with running(GoogleSearch.app(fields, name="google_search")) as url, Caller(url) as caller:
        yield caller


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
async def test_a_case_of_the_folder_scores_as_it_says(case: dict[str, Any]) -> None:
    async with web(case.get("config")) as caller:
        for step in case.get("steps", ()):
            assert (await caller.post(f"/{step['tool']}", step["arguments"])).body == step["output"]
        reply = await caller.post("/verify", case["request"])
    if "expected_error" in case:
        assert reply.status == case["expected_error"]["status"]
        assert reply.body["error"]["kind"] == case["expected_error"]["kind"]
        assert "expected_answer" in reply.body["error"]["message"]
        return
    assert (reply.status, reply.body["reward"]) == (200, case["expected_reward"])
    assert reply.body | case.get("expected_fields", {}) == reply.body
    assert ("reason" in reply.body) == (reply.body["reward"] == 0.0)


async def test_every_example_can_be_solved_with_the_recorded_web(rows: Rows) -> None:
    facts = ("red paint", "131 km", "nine arches", "flood of 1803", "glass bells")
    async with web() as caller:
        for row, fact in zip(rows, facts, strict=True):
            question = row["responses_create_params"]["input"].partition("\n")[0]
            found = json.loads((await caller.post("/search", {"query": question})).body["search_results"])
            links = [item["link"] for item in found["items"][:3]]
            pages = [(await caller.post("/browse", {"url": link})).body["page_content"] for link in links]
            assert any(fact in page for page in pages), question


async def test_a_page_is_its_text_without_its_frame() -> None:
    async with web() as caller:
        reply = (await caller.post("/browse", {"url": "http://almanac.example/lake-ostra/#rivers"})).body
    lines = reply["page_content"].splitlines()
    assert lines[0] == "Lake Ostra"
    assert "| Bel | 131 km" in lines
    assert not any("Home" in line or "Almanac" in line or "margin" in line for line in lines)


async def test_a_recorded_search_is_given_back_as_it_was_and_another_one_is_ranked() -> None:
    async with web() as caller:
        recorded = json.loads(
            (await caller.post("/search", {"query": " Odile  KESSIM bridges"})).body["search_results"]
        )
        ranked = json.loads((await caller.post("/search", {"query": "glass bells"})).body["search_results"])
        nothing = json.loads((await caller.post("/search", {"query": "zebra"})).body["search_results"])
    assert [item["link"][-8:] for item in recorded["items"]] == ["e/kessim", "varrgate"]
    assert ranked["items"][0]["link"] == "https://almanac.example/saltholm"
    assert "items" not in nothing


async def test_without_keys_the_recorded_web_answers_and_health_says_so() -> None:
    async with web({"recorded": ""}) as caller:
        assert (await caller.get("/healthz")).body["web"] == "recorded"


def test_half_of_the_keys_is_refused() -> None:
    config = parse_config(GoogleSearch.__annotations__["config"], "g", {"google_api_key": "k"})
    with pytest.raises(UserError, match="google_cx is missing"):
        GoogleSearch(config, Settings())


@pytest.mark.parametrize(("line", "words"), [("{", "not JSON"), ("[]", "neither"), ('{"url": "x"}', "neither")])
def test_a_recorded_web_that_is_none_is_named_with_its_line(tmp_path: Path, line: str, words: str) -> None:
    (tmp_path / "web.jsonl").write_text(f'{{"url": "http://a.example", "html": "x"}}\n\n{line}\n', "utf-8")
    with pytest.raises(UserError, match=rf"web\.jsonl:3: {words}"):
        RecordedWeb(tmp_path / "web.jsonl")
    with pytest.raises(UserError, match="cannot be read"):
        RecordedWeb(tmp_path / "none.jsonl")


async def test_metrics_count_majorities() -> None:
    replies = [{"_ng_task_index": 0, "reward": 1.0, "parsed_option": "B"}, {"_ng_task_index": 0, "reward": 0.0}]
    async with web() as caller:
        metrics = (await caller.post("/aggregate_metrics", {"verify_responses": replies})).body["agent_metrics"]
    assert metrics["pass@1[avg-of-2]/no_answer"] == 50.0


@pytest.mark.parametrize(
    ("text", "box"),
    [
        (r"\boxed{A} \boxed{B}", "A"),
        ("\\boxed{A\n} \\boxed{B}", "B"),
        ("\\boxed{A \n \\boxed{B", None),
        (r"\boxed{}", ""),
        ("none", None),
    ],
)
def test_the_first_box_ends_at_the_next_brace_on_its_line(text: str, box: str | None) -> None:
    assert first_box(text) == box


def test_the_printed_form_of_a_text_is_what_is_read() -> None:
    assert parse_option([message("\\boxed{A\nB}")], strict=False)[0] == r"A\nB"
    assert parse_option([message(r"\boxed{\frac{1}{2}}")], strict=False)[0] == r"\\frac{1"
    assert parse_option([message(r"\boxed{\frac{1}{2}}")], strict=True)[0] == r"\frac{1}{2}"
    assert parse_option([message(r"\boxed{A} \boxed{B")], strict=True)[0] == "A"


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | st.just(r"\boxed{A}"),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["text", "refusal", "type"]), inner, max_size=3)
    ),
    max_leaves=6,
)
ITEMS = st.lists(
    st.text("\\boxed{}A\n'", max_size=20).map(message)
    | st.builds(function_call, st.text(max_size=4), st.text(max_size=4))
    | st.dictionaries(st.sampled_from(["type", "role", "content"]), ANYTHING, max_size=3)
    | st.fixed_dictionaries({"type": st.just("message"), "role": st.just("assistant"), "content": ANYTHING}),
    max_size=3,
)


@given(ITEMS)
@settings(max_examples=400, deadline=None, derandomize=True)
def test_any_output_holds_an_option_or_a_reason(output: list[dict[str, Any]]) -> None:
    for strict in (False, True):
        option, reason = parse_option(output, strict=strict)
        assert (option is None) == bool(reason)


@pytest.mark.parametrize("piece", ["\\boxed{", "\\boxed{\n", "{", "}", "\\boxed{\\text{"])
def test_an_answer_of_megabytes_is_read_in_linear_time(piece: str) -> None:
    output = [message(piece * (3_000_000 // len(piece)))]
    begun = time.process_time()
    for strict in (False, True):
        parse_option(output, strict=strict)
    assert time.process_time() - begun < 20.0  # seconds at most; quadratic: hours


async def test_the_response_is_echoed(rows: Rows) -> None:
    body = rows[0] | {"response": response([message(r"\boxed{B}")], model="m")}
    async with web() as caller:
        reply = (await caller.post("/verify", body)).body
    assert reply == body | {"reward": 1.0, "parsed_option": "B"}

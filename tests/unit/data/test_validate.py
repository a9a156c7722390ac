"""One line at a time: JSON as every reader takes it, the contract, and agents that are there."""

from __future__ import annotations

from pathlib import Path

import pytest

from gym.data.line_source import Line
from gym.data.row_rules import Checked, LineRules, check_files, check_line, check_lines
from tests.support.row_lines import lines_of_rows

PARAMS = b'"responses_create_params":{"input":"x"}'
AGENTS = LineRules(agents=("mcqa_simple_agent", "swe_simple_agent"))


def check(raw: bytes, rules: LineRules | None = None) -> Checked:
    return check_line(Line(raw, "rows.jsonl", 7), rules or LineRules())


def problems_of(raw: bytes, rules: LineRules | None = None) -> list[str]:
    return [str(one) for one in check(raw, rules).problems]


def test_a_good_line_comes_back_parsed_with_its_bytes() -> None:
    raw = b'{%s,"id":1}' % PARAMS
    checked = check(raw)
    assert checked == (Line(raw, "rows.jsonl", 7), {"responses_create_params": {"input": "x"}, "id": 1}, ())


@pytest.mark.parametrize(
    ("raw", "finding"),
    [
        (b"{" + PARAMS + b',"a":"\\ud800 x"}', "half of a surrogate pair, as \\ud800 alone, is not a character"),
        (b"{" + PARAMS + b',"a":NaN}', "NaN is not JSON: write null, or leave the field out"),
        (b"{" + PARAMS + b',"a":[-Infinity]}', "Infinity is not JSON"),
        (b"{" + PARAMS + b',"a":1e999}', "number is infinity"),
        (b"{" + PARAMS + b',"a":"\xff"}', "is not UTF-8"),
        (b"[1]", "a row is an object, this is a list"),
        (b"{" + PARAMS, "not JSON"),
        (b"{" + PARAMS + b',"a":' + b"[" * 300 + b"]" * 300 + b"}", "nested deeper than 254 levels"),
        (b"{" + PARAMS + b',"a":' + b"[" * 3000 + b"]" * 3000 + b"}", "depth limit"),
    ],
)
def test_what_some_readers_take_and_others_refuse_is_a_finding(raw: bytes, finding: str) -> None:
    (text,) = problems_of(raw)
    assert text.startswith("rows.jsonl:7: ")
    assert finding in text


@pytest.mark.parametrize(
    ("raw", "path"),
    [
        (b'{"id":1,%s,"id":1}' % PARAMS, "id"),
        (b'{"id" : 1, %s, "id" : 1}' % PARAMS, "id"),
        (b'{"responses_create_params":{"input":"x","input":"x"}}', "responses_create_params.input"),
        (b'{%s,"a":[{"b":{"c":1,"c":"\\u0022"}}]}' % PARAMS, "a[0].b.c"),
        (b'{%s,"a":{"b":"\\u0022\\u0022","b":"\\u0022\\u0022"}}' % PARAMS, "a.b"),
        (b'{%s,"a":{"\\u0062":1,"b":2}}' % PARAMS, "a.b"),
        (b'{%s,"a":{"":1,"":2}}' % PARAMS, "a."),
    ],
)
def test_a_key_that_is_there_twice_is_found_at_any_depth(raw: bytes, path: str) -> None:
    assert problems_of(raw) == [
        f"rows.jsonl:7: {path}: is there twice in one object\n    keep one: {'readers differ in which they take'}"
    ]


def test_text_with_quotes_and_colons_is_not_a_key_that_is_there_twice() -> None:
    assert problems_of(b'{%s,"a":"\\"b\\":1,\\"b\\":2","c":"\\u0022","d":{"a":1}}' % PARAMS) == []


def test_an_unknown_agent_is_reported_with_the_nearest_name() -> None:
    raw = b'{%s,"agent_ref":{"type":"responses_api_agents","name":"mcqa_simple_agnt"}}' % PARAMS
    assert problems_of(raw) == []
    (text,) = problems_of(raw, AGENTS)
    assert "agent_ref.name: is not an agent of these configurations" in text
    assert "did you mean mcqa_simple_agent?" in text


def test_a_row_without_agent_is_the_only_agents_or_the_named_ones_else_a_finding() -> None:
    raw = b"{%s}" % PARAMS
    assert problems_of(raw, LineRules(agents=("one",))) == []
    assert problems_of(raw, LineRules(agents=("one", "two"), agent="two")) == []
    assert "agent_ref: is missing, and there are several agents" in problems_of(raw, AGENTS)[0]


def test_an_older_name_of_an_agent_is_one_that_is_there() -> None:
    raw = b'{%s,"agent_ref":{"name":"workbench_simple_agent"}}' % PARAMS
    assert problems_of(raw, LineRules(agents=("workplace_assistant_simple_agent",))) == []


def test_a_line_beyond_the_bound_is_a_finding_and_not_parsed() -> None:
    checked = check(b"{" + b" " * 100, LineRules(max_line=50))
    assert "longer than 50 bytes" in checked.problems[0].what
    assert checked.line.raw == b""


def test_a_bad_line_stops_nothing() -> None:
    rows = [{"responses_create_params": {"input": "x"}}, [], {"responses_create_params": {"input": "y"}}]
    assert [checked.row is None for checked in check_lines(lines_of_rows(rows))] == [False, True, False]


def test_files_are_checked_line_by_line_whatever_their_ends(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_bytes(b"\xef\xbb\xbf{%s}\r\n\r\n{}\r\n{%s}" % (PARAMS, PARAMS))
    found = [(one.line.number, one.row is not None) for one in check_files([str(path)])]
    assert found == [(1, True), (3, False), (4, True)]

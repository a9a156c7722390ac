"""Where the code stands in an answer, and which paths a value has."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scoring import BadPath, exists, extract_code, read, score, tokens_of, undo_escapes

VALUE: dict[str, Any] = {
    "a": {"b.c": [1, {"d": None}]},
    "e": [[{"f": 1}], [{"g": 1}]],
    "id": 1,
    "@x": 2,
    "*": {"h": 1},
}


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("a", True),
        ("a.`b.c`", True),
        ("a.`b.c`[0]", True),
        ("a.`b.c`[1].d", True),
        ("a.`b.c`[2]", False),
        ("a.`b.c`[-1]", False),
        ("a.b.c", False),
        ("a.b", False),
        ("e.*.*.g", True),
        ("e.*.f", False),
        ("e[0].*.f", True),
        ("e[x]", False),
        ("@id", True),
        ("@x", True),
        ("@y", False),
        ("*.h", False),
        ("", True),
        (".a", True),
        ("csv::a", False),
    ],
)
def test_a_path_is_in_a_value_or_not(path: str, found: bool) -> None:
    assert exists(VALUE, tokens_of(path)) is found


def test_the_columns_of_a_table_are_paths() -> None:
    table = read("a,b c\n1,2\n", "csv")[0]
    assert [exists(table, tokens_of(path)) for path in ("csv::a", "csv::b c", "csv::c", "csv_rows[0].a")] == [
        *(True, True, False, True)
    ]


def test_an_open_bracket_is_not_a_path() -> None:
    with pytest.raises(BadPath, match="not closed"):
        tokens_of("a[0")


@given(st.text(alphabet="ab.[]0*`@:", max_size=12))
def test_any_path_is_read_or_refused(path: str) -> None:
    try:
        tokens = tokens_of(path)
    except BadPath:
        assert "[" in path
    else:
        assert isinstance(exists(VALUE, tokens), bool)


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("<|BEGIN_CODE|>\n{1}\n<|END_CODE|> so", "{1}"),
        ("so <|begin_code|>{1}", "{1}"),
        ("```json\n{1}\n``` so", "{1}"),
        ("so\n```\n{1}", "{1}"),
        ("<|BEGIN_CODE|>\n```json\n{1}\n```\n<|END_CODE|>", "{1}"),
        ("```{1}```", "```{1}```"),
        (" {1} ", "{1}"),
        ("&lt;a/&gt;", "<a/>"),
        ("<think>\n\n</think>\n\n{1}", "{1}"),
        ("<|BEGIN_CODE|><|END_CODE|>", ""),
    ],
)
def test_the_code_is_found(text: str, code: str) -> None:
    assert extract_code(text, decode=False) == code
    assert extract_code(text, decode=True) == code


def test_escapes_are_undone_for_better_or_worse() -> None:
    assert extract_code("```yaml\\na: 1\\n```", decode=True) == "a: 1"
    assert extract_code("```yaml\\na: 1\\n```", decode=False) == "```yaml\\na: 1\\n```"
    assert undo_escapes(r"\d \n \" \x") == r"\d \n \" \x"  # one that cannot be undone leaves all as they are
    assert undo_escapes("é") == "Ã©"


@pytest.mark.parametrize("piece", ["```", "<|BEGIN_CODE|>", "`", "<|", "[", "- ", "\\", "<a>"])
@pytest.mark.parametrize("kind", ["json", "yaml", "toml", "xml", "csv"])
def test_a_long_answer_made_to_be_slow_is_scored(piece: str, kind: str) -> None:
    result = score(piece * (1_000_000 // len(piece)), kind, ["a.b"], False)
    assert result["reward"] in (0.0, 0.2)

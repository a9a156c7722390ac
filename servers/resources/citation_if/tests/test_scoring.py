"""Every grammar against every known way of seeming to cite; and harmless changes that must not cost anything."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scoring import GRAMMARS, RESERVED, score

GOLD, OTHER, THIRD = "citation_4kq2", "citation_9fzm", "citation_t3xw"
PASSAGES = {one: f"{one}:snippet_1" for one in (GOLD, OTHER, THIRD)}
every_grammar = pytest.mark.parametrize("grammar", sorted(GRAMMARS))
every_kind = pytest.mark.parametrize("kind", ["full_source", "snippet"])
TAGS = ("cite_xml", "claim_wrap_xml")


def render(grammar: str, ids: str) -> str:
    forms = {
        "cite_xml": "<cite>ID</cite>",
        "claim_wrap_xml": '<cite index="ID">the claim</cite>',
        "ascii_brackets": "[ID]",
        "fullwidth_brackets": "【ID】",
        "ref_colon": "[ref:ID]",
        "double_angle": "<<ID>>",
        "web_brackets": "[web:ID]",
        "paren_part": "(ID)",
        "markdown_footnote": "[^ID]",
        "curly_double": "{{ID}}",
        "angle_pipe": "<ref|ID>",
    }
    return forms[grammar].replace("ID", ids)


def name(one: str, kind: str) -> str:
    return one if kind == "full_source" else PASSAGES[one]


def judge(text: str, grammar: str, kind: str, **changes: Any) -> str | None:
    asked: dict[str, Any] = {
        "mode": "cite",
        "grammar": grammar,
        "id_kind": kind,
        "id_regex": "citation_[a-z0-9]{4}" + (":snippet_[0-9]+" if kind == "snippet" else ""),
        "valid_id_set": [name(one, kind) for one in (GOLD, OTHER, THIRD)],
        "expected_ids": [name(GOLD, kind)],
        "expected_slack": 1,
        "min_valid_citations": 1,
    }
    failed: str | None = score(text, 0, asked | changes)["gate_failed"]
    return failed


@every_kind
@every_grammar
def test_an_honest_citation_passes_every_gate(grammar: str, kind: str) -> None:
    gold, other = (render(grammar, name(one, kind)) for one in (GOLD, OTHER))
    assert judge(f"Fact. {gold}", grammar, kind) is None
    assert judge(f"Fact. {gold}\n\nAnother: {other}", grammar, kind) is None
    assert judge(f"Fact. {gold}{gold}", grammar, kind) is None
    assert judge(f"Fact. {other}", grammar, kind, expected_ids=None) is None
    assert judge("Fact.", grammar, kind, mode="no_cite") is None


@every_kind
@every_grammar
def test_every_known_way_of_seeming_to_cite_fails(grammar: str, kind: str) -> None:
    gold, other, third = (render(grammar, name(one, kind)) for one in (GOLD, OTHER, THIRD))
    raw = name(OTHER, kind)
    hidden = {
        f"Fact. {render(grammar, 'citation_0')}": {"malformed_attempt", "must_cite"},
        f"Fact. {gold} {render(grammar, name('citation_zzzz', 'full_source'))}": {
            "malformed_attempt",
            "no_hallucination",
        },
        f"Fact. {gold} {render(grammar, RESERVED)}": {"malformed_attempt", "no_hallucination"},
        f"Per {raw}, so. {gold}": {"malformed_attempt"},
        f"Fact. {gold}\nSources: {raw}": {"malformed_attempt"},
        f"Fact. {gold} CITATION_9fzm": {"malformed_attempt"},
        f"Fact. {render(grammar, name(GOLD, kind) + ', ' + raw)}": {"malformed_attempt"},
        f"Fact. {gold} {other} {third}": {"correctness_over_cap"},
        f"Fact. {other}": {"correctness_missed_gold"},
        "Fact.": {"must_cite"},
        " ": {"structural"},
    }
    for text, gates in hidden.items():
        assert judge(text, grammar, kind) in gates, text
    assert judge(f"Fact. {gold}", grammar, kind, mode="no_cite") == "no_cite"
    assert judge(f"Fact. {raw}", grammar, kind, mode="no_cite") == "no_cite"


@every_kind
@every_grammar
def test_a_citation_alone_is_not_an_answer_but_a_claim_inside_of_one_is(grammar: str, kind: str) -> None:
    expected = None if grammar == "claim_wrap_xml" else "no_answer"
    assert judge(render(grammar, name(GOLD, kind)) + " .", grammar, kind) == expected


@pytest.mark.parametrize("grammar", TAGS)
def test_tags_are_opened_and_closed_as_often_as_they_cite(grammar: str) -> None:
    gold = render(grammar, GOLD)
    for extra in ("<cite>", "</cite>", "<cite></cite>", '<cite index=""> x</cite>', "< /cite><CITE>"):
        assert judge(f"Fact. {gold} {extra}", grammar, "full_source") == "malformed_attempt", extra
    assert judge("Fact. <cite>so", grammar, "full_source", mode="no_cite") == "no_cite"


def test_a_claim_of_nothing_is_not_a_citation_and_takes_no_other_with_it() -> None:
    empty = f'<cite index="{GOLD}"> </cite>'
    assert judge(f"Fact. {empty}", "claim_wrap_xml", "full_source") == "malformed_attempt"
    result = score(f"Fact. {empty} " + render("claim_wrap_xml", OTHER), 0, asked_of("claim_wrap_xml"))
    assert result["parsed_ids"] == [OTHER]


def asked_of(grammar: str) -> dict[str, Any]:
    empty = dict.fromkeys(("id_regex", "valid_id_set", "expected_ids"))
    return {"mode": "cite", "grammar": grammar, "id_kind": "full_source", "min_valid_citations": 1, **empty} | {
        "id_regex": "citation_[a-z0-9]{4}",
        "expected_slack": 1,
    }


@pytest.mark.parametrize(("kind", "said"), [("full_source", "citation_12"), ("snippet", "citation_12:snippet_3")])
def test_a_row_without_an_id_pattern_has_numbers(kind: str, said: str) -> None:
    changes = {"id_regex": None, "valid_id_set": [said], "expected_ids": [said]}
    assert judge(f"Fact. [{said}]", "ascii_brackets", kind, **changes) is None


def test_a_tool_call_is_not_an_answer() -> None:
    result = score("Fact.", 2, asked_of("cite_xml"))
    assert (result["gate_failed"], result["function_call_count"], result["structural_ok"]) == ("structural", 2, False)


HARMLESS = st.text(alphabet=" \n.,;!?'\"*_#—“”’é1aZ", max_size=12)


@given(before=HARMLESS, after=HARMLESS, grammar=st.sampled_from(sorted(GRAMMARS)))
def test_whatever_stands_around_an_honest_citation_it_stays_one(before: str, after: str, grammar: str) -> None:
    assert judge(f"Fact {before} {render(grammar, GOLD)} {after}", grammar, "full_source") is None


@given(noise=HARMLESS, leak=st.sampled_from(["citation_1", "Citation_abc", "citation_4kq2", "[citation_:]"]))
def test_whatever_stands_around_a_leaked_id_it_stays_one(noise: str, leak: str) -> None:
    text = f"Fact {render('cite_xml', GOLD)} {noise} {leak} {noise}"
    assert judge(text, "cite_xml", "full_source") == "malformed_attempt"

"""Whatever is posted to /verify, the answer is a reward or names the row's fault."""

from __future__ import annotations

from typing import Any

import pytest
from app import CitationIf
from hypothesis import strategies as st
from scoring import GRAMMARS

from gym.server.fuzz import fuzz_verify
from gym.server.testing import Rows

TEXTS = ("a", "[a]", "a <cite>a</cite>", "citation_1", "<cite>")
IDS = st.lists(st.sampled_from(["citation_4kq2", "", "a"]) | st.text(max_size=4), max_size=3)
VERIFIERS = st.fixed_dictionaries(
    {"grammar": st.sampled_from([*GRAMMARS, "odd", ""]), "mode": st.sampled_from(["cite", "no_cite", "?"])},
    optional={
        "id_regex": st.sampled_from(["a", "", "(", "(?P<_ids>a)", r"(a)\1", "a*", None]) | st.text(max_size=3),
        "id_kind": st.sampled_from(["snippet", "full_source", "odd"]),
        "valid_id_set": IDS | st.none(),
        "expected_ids": IDS | st.none(),
        "expected_slack": st.integers(-2, 2),
        "min_valid_citations": st.integers(-2, 2) | st.text(max_size=2),
    },
)
VALUES = {"verifier": VERIFIERS | st.none()}


@pytest.mark.parametrize("settings", [{}], ids=str)
def test_no_request_breaks_the_verifier(rows: Rows, settings: dict[str, Any]) -> None:
    fuzz_verify(CitationIf.app(settings, name="citation_if"), rows, texts=TEXTS, values=VALUES)

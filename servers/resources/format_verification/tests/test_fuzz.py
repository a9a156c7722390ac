"""Whatever is posted to /verify, the answer is a reward or names the row's fault."""

from __future__ import annotations

from typing import Any

import pytest
from app import FormatVerification
from hypothesis import strategies as st

from gym.server.fuzz import fuzz_verify
from gym.server.testing import Rows

TEXTS = ("a", "1", "a\n1", "[a]")
PATTERNS = st.lists(
    st.sampled_from(["a", "(", r"\d+", "^", "", "[", "(?P<x>a)(?P=x)"]) | st.text(max_size=4), max_size=3
)
VERIFIERS = st.fixed_dictionaries(
    {"type": st.sampled_from(["regex", "inline_prose", "string_match", "odd", 5])},
    optional={
        "verify_regex": PATTERNS | st.none(),
        "verify_min_matches": st.integers(-3, 3) | st.text(max_size=2),
        "expected_markers": PATTERNS,
        "patterns": PATTERNS,
    },
)
VALUES = {"verifier": VERIFIERS | st.none()}


@pytest.mark.parametrize("settings", [{}, {"strict": True}], ids=str)
def test_no_request_breaks_the_verifier(rows: Rows, settings: dict[str, Any]) -> None:
    fuzz_verify(FormatVerification.app(settings, name="format_verification"), rows, texts=TEXTS, values=VALUES)

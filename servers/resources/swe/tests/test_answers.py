"""The patch that stands in an answer."""

from __future__ import annotations

import pytest
from answers import patch_in
from hypothesis import given
from hypothesis import strategies as st

DIFF = "diff --git a/a.py b/a.py\n--- a/a.py\n+++ b/a.py\n@@ -1 +1 @@\n-1\n+2\n"
PLAIN = DIFF.partition("\n")[2]


@pytest.mark.parametrize(
    "text",
    [f"So:\n```diff\n{DIFF}```\nDone.", f"```\n{DIFF}```", f"<patch>\n{DIFF}</patch>", DIFF, f"Here:\n{DIFF}"]
    + [f"<think>```diff\n{PLAIN}```</think>\n```patch\n{DIFF}```", f"```diff\nold\n```\n```diff\n{DIFF}```"],
)
def test_the_last_patch_after_the_last_thought_is_found(text: str) -> None:
    assert patch_in(text) == DIFF


@pytest.mark.parametrize("text", ["", "I would change a.py.", "```python\nprint(1)\n```", "--- a rule ---"])
def test_where_there_is_none_it_is_empty(text: str) -> None:
    assert patch_in(text) == ""


@given(st.text())
def test_any_text_is_read(text: str) -> None:
    found = patch_in(text)
    assert found == "" or found.endswith("\n")

"""Whatever is posted to /verify, the answer is a reward or names the row's fault."""

from __future__ import annotations

from typing import Any

import pytest
from app import StructEval
from hypothesis import strategies as st

from gym.server.fuzz import DOCUMENTS, fuzz_verify
from gym.server.testing import Rows

PATHS = st.lists(st.text(alphabet="ab.[]0*`@:cs", max_size=8) | st.text(max_size=5), max_size=3)
VALUES = {
    "raw_output_metric": PATHS | st.none() | st.integers(),
    "output_type": st.sampled_from(["JSON", "yaml", "Toml", "XML", "CSV", "HTML", "", "J" * 9]),
    "rendering": st.sampled_from([True, "no", None]),
}


@pytest.mark.parametrize("settings", [{}, {"strict": True}], ids=str)
def test_no_request_breaks_the_verifier(rows: Rows, settings: dict[str, Any]) -> None:
    fuzz_verify(StructEval.app(settings, name="structeval"), rows, texts=DOCUMENTS, values=VALUES)

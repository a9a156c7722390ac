"""Whatever is posted to /verify, the answer is a reward or names the row's fault."""

from __future__ import annotations

from typing import Any

import pytest
from app import InstructionFollowing
from hypothesis import strategies as st
from instruction_samples import SAMPLES

from gym.server.fuzz import DOCUMENTS, fuzz_verify
from gym.server.testing import Rows

IDS = st.sampled_from([sample[0] for sample in SAMPLES]) | st.text(max_size=8)
NAMES = sorted({name for sample in SAMPLES for name in sample[1]})
KWARGS = st.dictionaries(st.sampled_from(NAMES), st.text(max_size=6) | st.integers(-5, 50) | st.none(), max_size=4)
ASKED = st.fixed_dictionaries(
    {"instruction_id_list": st.lists(IDS, max_size=4), "kwargs": st.lists(KWARGS | st.none(), max_size=4)},
    optional={"grading_mode": st.sampled_from(["binary", "fraction", "?"]), "prompt": st.text(max_size=4)},
)
VALUES = {"verifier_metadata": ASKED | st.none(), "kwargs": ASKED, "instruction_id_list": st.lists(IDS)}


@pytest.mark.parametrize("settings", [{}, {"strict": True}, {"suite": "ifbench"}], ids=str)
def test_no_request_breaks_the_verifier(rows: Rows, settings: dict[str, Any]) -> None:
    fuzz_verify(InstructionFollowing.app(settings, name="instruction_following"), rows, texts=DOCUMENTS, values=VALUES)

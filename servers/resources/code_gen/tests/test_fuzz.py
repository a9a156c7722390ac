"""Whatever a model writes and a row holds, there is a reward or a field to blame; programs run in a real sandbox."""

from __future__ import annotations

from collections.abc import Callable

from app import CodeGen
from hypothesis import strategies as st

from gym.runtime.trial_broker import TrialAccess
from gym.server.fuzz import ANYTHING, fuzz_verify
from gym.server.testing import Rows

TEXTS = (
    "```python\nprint(input())\n```",
    "```\n1 /\n```",
    "```python\n\x00\n```",
    "```python\nraise SystemExit(3)\n```",
)
TESTS = st.fixed_dictionaries(
    {"inputs": st.lists(st.text(max_size=3) | ANYTHING, max_size=2), "outputs": st.lists(ANYTHING, max_size=2)},
    optional={"fn_name": ANYTHING},
)


def test_no_well_formed_request_breaks_it(rows: Rows, sandbox_broker: Callable[..., TrialAccess]) -> None:
    metadata = st.fixed_dictionaries({"unit_tests": TESTS | ANYTHING}, optional={"difficulty": ANYTHING})
    fields = {"num_processes": 2, "unit_test_timeout_secs": 2}
    app = CodeGen.app(fields, name="code_gen", **sandbox_broker().settings)
    fuzz_verify(app, rows, texts=TEXTS, values={"verifier_metadata": metadata}, examples=100)

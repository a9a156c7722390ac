"""Whatever is posted to /verify, the answer is a reward or names the row's fault."""

from __future__ import annotations

import json
from typing import Any

import pytest
from app import StructuredOutputs
from hypothesis import strategies as st

from gym.server.fuzz import ANYTHING, DOCUMENTS, fuzz_verify
from gym.server.testing import Rows

TYPES = st.sampled_from(["object", "array", "string", "integer", "number", "boolean", "null", "odd"])
SCHEMAS = st.recursive(
    st.fixed_dictionaries({"type": TYPES | st.lists(TYPES, max_size=2)}) | ANYTHING,
    lambda inner: st.fixed_dictionaries(
        {},
        optional={
            "type": TYPES,
            "properties": st.dictionaries(st.sampled_from(["a", "item"]), inner, max_size=2),
            "items": inner,
            "anyOf": st.lists(inner, max_size=2),
        },
    ),
    max_leaves=5,
)
VALUES = {
    "schema_str": SCHEMAS.map(json.dumps) | ANYTHING,
    "schema_type": st.sampled_from(["json", "yaml", "toml", "xml", "csv", "ini"]),
    "response_mode": st.sampled_from(["text", "tool_call"]),
    "tool_payload_key": st.sampled_from([None, "a"]),
}


@pytest.mark.parametrize("settings", [{}, {"strict": True}, {"xml_coerce_types": False}], ids=str)
def test_no_request_breaks_the_verifier(rows: Rows, settings: dict[str, Any]) -> None:
    fuzz_verify(StructuredOutputs.app(settings, name="structured_outputs"), rows, texts=DOCUMENTS, values=VALUES)

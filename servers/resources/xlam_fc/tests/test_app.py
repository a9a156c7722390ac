"""xlam_fc on a real socket, and as pure functions: which calls are the expected ones."""

from __future__ import annotations

from typing import Any

import pytest
from app import Call, XlamFc, XlamFcConfig
from hypothesis import strategies as st

from gym.server import ServerApp
from gym.server.config import Settings
from gym.server.fuzz import fuzz_verify
from gym.server.testing import Rows


@pytest.mark.parametrize("fields", [{}, {"strict": True}])
def test_no_well_formed_request_breaks_it(app: ServerApp, rows: Rows, fields: dict[str, Any]) -> None:
    fuzz_verify(
        app.configured(fields),
        rows,
        tools=["convert_currency", "list_holidays"],
        values={
            "expected_answers": st.lists(
                st.fixed_dictionaries(
                    {
                        "name": st.sampled_from(["convert_currency", "x"]),
                        "arguments": st.dictionaries(st.text(max_size=2), st.integers() | st.booleans(), max_size=2),
                    }
                ),
                max_size=3,
            )
        },
    )


def expected(**arguments: Any) -> Call:
    return Call("f", arguments)


def test_an_expected_call_may_have_more_arguments_unless_strict() -> None:
    given = Call("f", '{"a": 1, "b": 2}')
    assert given.answers(expected(a=1), strict=False)
    assert not given.answers(expected(a=1), strict=True)
    assert not given.answers(expected(a=1, c=3), strict=False)
    assert not Call("g", "{}").answers(expected(), strict=False)


@pytest.mark.parametrize("arguments", ["", "no json", "[1]", "null", None, 4, '{"a": "\\ud800"}', "[" * 10_000])
def test_arguments_that_are_not_an_object_count_as_none(arguments: Any) -> None:
    assert Call("f", arguments).arguments == {}


def test_strict_pairs_calls_that_the_first_fit_would_not() -> None:
    first, second = {"name": "f", "arguments": {"a": 1}}, {"name": "f", "arguments": {"a": 1, "b": 2}}
    wanted = [Call(one["name"], one["arguments"]) for one in (first, second)]
    assert server({}).count(wanted, wanted[::-1]) == 1
    assert server({"strict": True}).count(wanted, wanted[::-1]) == 2


def server(fields: dict[str, Any]) -> XlamFc:
    return XlamFc(XlamFcConfig(**fields), Settings())

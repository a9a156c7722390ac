from __future__ import annotations

import base64

import pytest

from gym.console.console_token import is_admitted


def basic(text: str) -> str:
    return f"Basic {base64.b64encode(text.encode()).decode()}"


@pytest.mark.parametrize(
    "header", ["Bearer hush", "bearer hush", "Bearer  hush ", basic("anyone:hush"), basic(":hush")]
)
def test_the_token_admits_as_bearer_and_as_password(header: str) -> None:
    assert is_admitted(header, "hush")


@pytest.mark.parametrize(
    "header",
    [
        "",
        "hush",
        "Bearer",
        "Bearer loud",
        "Bearer hushh",
        "Token hush",
        basic("hush"),
        basic("hush:x"),
        "Basic %%%",
        "Bearer ü",
    ],
)
def test_nothing_else_does(header: str) -> None:
    assert not is_admitted(header, "hush")


@pytest.mark.parametrize("header", ["", "Bearer ", "Bearer", basic("x:")])
def test_without_a_token_of_its_own_the_console_admits_no_one(header: str) -> None:
    assert not is_admitted(header, "")

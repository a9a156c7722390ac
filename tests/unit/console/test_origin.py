from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gym.console.origin import HOST, Origin, find_origin

ROUTER = "http://127.0.0.1:11000"


@pytest.mark.parametrize(
    ("asked", "origin"),
    [
        ("router:11000", Origin("router", 11000)),
        ("localhost:8080", Origin("localhost", 8080)),
        ("gym.example", Origin("gym.example", 80)),
        ("[::1]:11000", Origin("[::1]", 11000)),
        ("10.0.0.7:1", Origin("10.0.0.7", 1)),
    ],
)
def test_through_the_router_a_caller_stands_where_it_says(asked: str, origin: Origin) -> None:
    assert find_origin({"x-forwarded-host": asked}, ROUTER) == origin


@pytest.mark.parametrize(
    "asked",
    ["", "a b", "evil:1/s/x#", "h:99999", "h:0", "user@h", "h\r\nx: y", "-h", "h-", "'; drop", "${x}", "ü", "a" * 300],
)
def test_a_host_that_is_none_is_not_believed(asked: str) -> None:
    assert find_origin({"x-forwarded-host": asked}, ROUTER) == Origin("127.0.0.1", 11000)


def test_asked_directly_the_answer_is_the_router_and_not_the_console() -> None:
    assert find_origin({"host": "127.0.0.1:9000"}, ROUTER) == Origin("127.0.0.1", 11000)


def test_without_a_known_router_the_host_header_is_all_there_is() -> None:
    assert find_origin({"host": "127.0.0.1:9000"}, "") == Origin("127.0.0.1", 9000)
    assert find_origin({}, "") == Origin("127.0.0.1", 11000)


def test_behind_tls_the_port_is_that_of_https() -> None:
    found = find_origin({"x-forwarded-host": "gym.example", "x-forwarded-proto": "https"}, ROUTER)
    assert found.url == "https://gym.example:443"


@given(st.text(max_size=40))
@settings(max_examples=200, derandomize=True, deadline=None)
def test_whatever_is_asked_the_answer_is_made_of_harmless_characters(asked: str) -> None:
    origin = find_origin({"x-forwarded-host": asked}, ROUTER)
    assert HOST.fullmatch(f"{origin.host}:{origin.port}")

from __future__ import annotations

import pytest

from gym.wire.foreign_pages import is_foreign_site, is_json_type, is_loopback_host, is_near_host, is_same_origin

LOOPBACK = ("localhost", "LOCALHOST:99", "localhost.", "localhost.:80", "gym.localhost:1", "127.0.0.1", "127.9.8.7:1")
LOOPBACK6 = ("[::1]", "[::1]:8000", "host.docker.internal:11000")
FOREIGN = (
    "evil.example",
    "localhost.evil.example",
    "127.0.0.1.evil.example:80",
    "notlocalhost",
    "",
    "evil.example:127",
)
TRICKS = (
    "[::1].evil.example",
    "localhost@evil.example",
    "evil.example#localhost",
    "localhost\n",
    "[localhost",
    "router",
)


@pytest.mark.parametrize("host", LOOPBACK + LOOPBACK6)
def test_names_of_this_machine_are_known_in_every_spelling(host: str) -> None:
    assert is_loopback_host(host)
    assert is_near_host(host)


@pytest.mark.parametrize("host", FOREIGN + TRICKS)
def test_any_other_name_is_not_this_machine_s(host: str) -> None:
    assert not is_loopback_host(host)
    assert not is_near_host(host)


def test_an_address_is_not_a_pages_name_but_is_not_this_machine() -> None:
    for host in ("172.18.0.3:8000", "[fd00::3]:8000", "10.0.0.1"):
        assert is_near_host(host)
        assert not is_loopback_host(host)


@pytest.mark.parametrize(
    "kind",
    [
        "application/json",
        "Application/JSON; charset=utf-8",
        "application/x-ndjson",
        "application/jsonl",
        "application/vnd.api+json",
    ],
)
def test_json_and_its_lines_are_bodies(kind: str) -> None:
    assert is_json_type(kind)


@pytest.mark.parametrize(
    "kind",
    [
        "",
        "text/plain",
        "text/plain; application/json",
        "text/json",
        "application/jsonx",
        "multipart/form-data; boundary=application/json",
        "application/x-www-form-urlencoded",
        "application/octet-stream",
        "x application/json",
    ],
)
def test_what_a_page_may_send_unasked_is_none(kind: str) -> None:
    assert not is_json_type(kind)


@pytest.mark.parametrize("origin", ["http://localhost:11000", "HTTP://LOCALHOST:11000"])
def test_a_page_of_the_address_that_was_asked_is_not_a_stranger(origin: str) -> None:
    assert is_same_origin(origin, "127.0.0.1:4000", "localhost:11000")


@pytest.mark.parametrize(
    "origin",
    [
        "",
        "null",
        "http://localhost",
        "http://localhost:3000",
        "http://evil.localhost:11000",
        "http://[::1",
        "localhost:11000",
        "http://localhost:11000, http://evil.example",
    ],
)
def test_another_port_another_name_or_none_is(origin: str) -> None:
    assert not is_same_origin(origin, "localhost:11000", "")


def test_a_link_may_lead_to_pages_and_nothing_else_of_a_foreign_page_may() -> None:
    visit = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate", "sec-fetch-dest": "document"}
    image = {"sec-fetch-site": "same-site", "sec-fetch-mode": "no-cors", "sec-fetch-dest": "image"}
    assert not is_foreign_site("GET", visit, pages=True)
    assert is_foreign_site("GET", visit, pages=False)
    assert is_foreign_site("POST", visit, pages=True)
    assert is_foreign_site("GET", {**visit, "sec-fetch-dest": "iframe"}, pages=True)
    assert is_foreign_site("GET", image, pages=True)
    for own in ("same-origin", "none"):
        assert not is_foreign_site("POST", {**image, "sec-fetch-site": own}, pages=False)

"""A failed attempt as data, and what a peer's refusal means."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from gym.wire.failures import KINDS, STATUS, FailureKind, RolloutError, error_from_reply, reading


@pytest.mark.parametrize(
    ("kind", "status", "retryable"),
    [
        ("row", 422, False),
        ("budget", 422, False),
        ("timeout", 504, True),
        ("lost_session", 503, True),
        ("cancelled", 503, True),
        ("model", 502, True),
        ("resources", 500, True),
        ("agent", 500, True),
        ("sandbox", 500, True),
        ("judge", 500, True),
    ],
)
def test_the_rows_fault_is_4xx_and_everything_else_5xx(kind: FailureKind, status: int, retryable: bool) -> None:
    error = RolloutError(kind, "why", server="s")
    assert (error.status, error.retryable) == (status, retryable)
    assert orjson.loads(error.to_body()) == {
        "error": {"kind": kind, "server": "s", "message": "why", "retryable": retryable}
    }


def test_every_status_is_of_a_known_kind() -> None:
    assert set(STATUS) <= KINDS
    assert len(KINDS) == 10


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_a_failure_survives_the_way_through_a_peer(kind: FailureKind) -> None:
    sent = RolloutError(kind, "why", server="deep", retryable=False)
    read = error_from_reply(sent.status, sent.to_body(), server="near", kind="agent")
    assert (read.kind, read.message, read.server, read.retryable) == (kind, "why", "deep", False)
    assert read.status == sent.status


def test_a_peer_that_names_no_server_is_named_by_us() -> None:
    read = error_from_reply(500, b'{"error":{"kind":"model","message":"x"}}', server="near", kind="agent")
    assert (read.server, read.retryable) == ("near", True)


@pytest.mark.parametrize(
    ("status", "kind", "retryable"),
    [(400, "row", False), (404, "row", False), (422, "row", False), (500, "resources", True), (503, "resources", True)],
)
def test_a_foreign_refusal_means_what_its_status_means(status: int, kind: str, retryable: bool) -> None:
    read = error_from_reply(status, b"<html>no</html>", server="s", kind="resources")
    assert (read.kind, read.retryable) == (kind, retryable)
    assert f"answered {status}: <html>no</html>" in read.message


def test_a_models_refusal_is_about_the_model_and_not_the_row() -> None:
    read = error_from_reply(401, b"no key", server="s", kind="model")
    assert (read.kind, read.retryable, read.status) == ("model", False, 422)


@pytest.mark.parametrize("status", [408, 429])
def test_a_peer_that_asks_to_retry_later_is_not_the_rows_fault(status: int) -> None:
    read = error_from_reply(status, b"", server="s", kind="model")
    assert (read.kind, read.retryable) == ("model", True)
    assert read.status >= 500


@pytest.mark.parametrize("body", [b"[]", b'{"error": "text"}', b'{"error":{"kind":"odd"}}', b"\xff\xfe", b"null"])
def test_a_body_that_is_not_the_contracts_is_quoted(body: bytes) -> None:
    assert error_from_reply(500, body, server="s", kind="resources").kind == "resources"


def test_a_long_page_is_cut() -> None:
    assert len(error_from_reply(500, b"x" * 100_000, server="s", kind="model").message) < 3000


def test_a_field_of_an_unforeseen_type_is_the_senders_failure() -> None:
    @reading("row", "the request")
    def convert(value: dict[str, Any]) -> Any:
        return value["a"].upper()

    assert convert({"a": "x"}) == "X"
    with pytest.raises(RolloutError, match="the request has a field of an unexpected type"):
        convert({"a": 5})


def test_a_404_of_the_router_itself_is_neither_the_rows_fault_nor_the_end() -> None:
    found = error_from_reply(404, b"404 page not found\n", server="mcqa", kind="resources")
    assert (found.kind, found.retryable, found.status) == ("resources", True, 503)
    assert "has not read its files" in found.message
    assert error_from_reply(404, b'{"detail":"Not Found"}', server="mcqa", kind="resources").kind == "row"
    assert not error_from_reply(404, b"404 page not found\n", server="ollama", kind="model").retryable

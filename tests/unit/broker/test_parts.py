"""The small parts of the broker: what is kept of output, what runs once, who is still there, frames of a terminal."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gym.broker import idempotency as once_module
from gym.broker.audit_log import Audit
from gym.broker.background import BackgroundTasks
from gym.broker.config import ENV_FILE, authenticate, read_config
from gym.broker.errors import Busy, Conflict, RequestRefused, engine_failure
from gym.broker.idempotency import IdempotentRequests
from gym.broker.image_pulls import image_failure
from gym.broker.jobs import OutputCursor
from gym.broker.leases import Leases
from gym.broker.shells import BoundedOutput, MarkReader
from gym.errors import UserError
from gym.http.websocket import (
    BINARY,
    CLOSE,
    HIGH_WATER,
    PING,
    PONG,
    TEXT,
    BadFrame,
    Decoder,
    Message,
    WebSocketProtocol,
    accept_key,
    encode,
)
from gym.wire.failures import RolloutError
from gym.wire.sandbox import ExecResult, Output, SandboxSpec
from tests.support.sandbox_broker import OPERATOR_TOKEN, TOKEN, make_config

PIECES = st.lists(st.binary(max_size=30), max_size=20)


@given(PIECES, st.integers(2, 40))
def test_what_is_kept_is_head_and_tail_and_the_rest_is_counted(pieces: list[bytes], most: int) -> None:
    kept, whole = BoundedOutput(most), b"".join(pieces)
    for piece in pieces:
        kept.add(piece)
    output = kept.output()
    assert len(output.head) + len(output.tail) + output.dropped == len(whole)
    assert whole.startswith(output.head)
    assert whole.endswith(output.tail)
    assert len(output.head) + len(output.tail) <= most


@given(PIECES, st.integers(2, 1000))
def test_a_follower_hears_everything_once_and_gaps_are_marked(pieces: list[bytes], most: int) -> None:
    kept, cursor, heard = BoundedOutput(most), OutputCursor(), b""
    for piece in pieces:
        kept.add(piece)
        for stream, data in cursor.fresh(ExecResult(stdout=kept.output())):
            assert stream == 1
            heard += data
    whole = b"".join(pieces)
    if len(whole) <= most // 2 * 2:
        assert heard == whole
    else:
        assert heard.endswith(kept.output().tail)
    assert not cursor.fresh(ExecResult(stdout=kept.output()))


def test_what_went_by_between_two_looks_is_said() -> None:
    cursor = OutputCursor()
    assert cursor.fresh(ExecResult(stdout=Output(head=b"ab", tail=b"cd"))) == [(1, b"abcd")]
    later = ExecResult(stdout=Output(head=b"ab", tail=b"yz", dropped=22))
    assert cursor.fresh(later) == [(1, b"\n[... 20 bytes cut ...]\nyz")]


@given(st.binary(max_size=200), st.integers(1, 50), st.integers(0, 255))
async def test_a_shells_mark_is_found_wherever_the_pieces_are_cut(output: bytes, size: int, code: int) -> None:
    seeker = MarkReader(b"mark", 10_000)
    stream = output + b"\nmark %d\n" % code
    for at in range(0, len(stream), size):
        seeker.feed(stream[at : at + size])
    assert seeker.found.result() == code
    assert seeker.kept.output().data == output


async def test_the_id_of_a_request_stays_used_when_its_reply_is_no_longer_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(once_module, "KEPT_BYTES", 10)
    tasks, runs = BackgroundTasks(), list[str]()
    once = IdempotentRequests(tasks)

    async def work(name: str) -> bytes:
        runs.append(name)
        return b"x" * 8

    for name in ("a", "b", "c"):
        await once.run((name,), b"body", lambda name=name: work(name))  # type: ignore[misc]
        await asyncio.sleep(0)
    with pytest.raises(Conflict, match="no longer kept"):
        await once.run(("a",), b"body", lambda: work("a"))
    assert await once.run(("c",), b"body", lambda: work("c")) == b"x" * 8
    assert runs == ["a", "b", "c"]


async def test_what_was_sent_away_may_be_retried_and_what_failed_may_not() -> None:
    once, answers = IdempotentRequests(BackgroundTasks()), [Busy("later", 1.0), RolloutError("sandbox", "it broke")]

    async def work() -> bytes:
        raise answers.pop(0)

    with pytest.raises(Busy):
        await once.run(("a",), b"", work)
    await asyncio.sleep(0)
    for _ in range(2):
        with pytest.raises(RolloutError, match="it broke"):
            await once.run(("a",), b"", work)
    assert not answers


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_a_lease_lasts_from_the_last_word_and_a_pause_of_the_broker_does_not_count() -> None:
    clock = Clock()
    leases = Leases(20.0, clock)
    owner = ("mcqa", "client")
    assert leases.is_over(owner)
    assert not leases.is_over(("mcqa", ""))  # it has no owner: its TTL ends it
    leases.renew(owner)
    clock.now += 19
    assert not leases.is_over(owner)
    leases.renew(owner, 5.0)  # shorter than what is left of the other: it keeps the longer
    clock.now += 500
    leases.extend_all(500)
    assert not leases.is_over(owner)
    clock.now += 21
    assert leases.is_over(owner)
    leases.sweep(set())
    assert len(leases) == 0
    assert leases.renew(owner, 1e9) <= 600


@given(st.lists(st.tuples(st.sampled_from([TEXT, BINARY]), st.binary(max_size=70_000)), max_size=3), st.booleans())
def test_messages_cross_a_websocket_whole(messages: list[tuple[int, bytes]], masked: bool) -> None:
    stream = b"".join(encode(kind, data, masked=masked) for kind, data in messages)
    decoder, seen = Decoder(masked=masked), list[Message]()
    for at in range(0, len(stream), 1000):
        seen.extend(decoder.feed(stream[at : at + 1000]))
    assert [(message.kind, message.data) for message in seen] == messages


def test_a_message_in_parts_is_put_together_and_control_frames_may_stand_between() -> None:
    decoder = Decoder(masked=False)
    stream = bytes([TEXT, 2]) + b"ab" + encode(CLOSE, b"") + bytes([0x80, 1]) + b"c"
    assert list(decoder.feed(stream)) == [Message(CLOSE, b""), Message(TEXT, b"abc")]


@pytest.mark.parametrize(
    "frame",
    [
        encode(TEXT, b"x"),  # a client has to mask
        bytes([0xC1, 0x80]) + bytes(4),  # an extension that was not agreed on
        bytes([0x82, 0xFF]) + (1 << 40).to_bytes(8, "big") + bytes(4),
        bytes([0x80, 0x80]) + bytes(4),  # goes on with nothing
        bytes([0x09, 0x80]) + bytes(4),  # a ping in parts
    ],
)
def test_frames_that_break_the_protocol_end_the_connection(frame: bytes) -> None:
    with pytest.raises(BadFrame):
        list(Decoder(masked=True).feed(frame))


def test_the_handshakes_answer_is_that_of_the_standard() -> None:
    assert accept_key(b"dGhlIHNhbXBsZSBub25jZQ==") == b"s3pPLMBiTxaQ9kYGzzhZRbK+xOo="


class FakeTransport:
    """One end of a connection, as the event loop's."""

    def __init__(self) -> None:
        self.written = b""
        self.reading = True

    def write(self, data: bytes) -> None:
        self.written += data

    def pause_reading(self) -> None:
        self.reading = False

    def resume_reading(self) -> None:
        self.reading = True


@pytest.mark.parametrize("kind", [BINARY, TEXT])
async def test_a_terminal_takes_no_more_than_it_can_pass_on(kind: int) -> None:
    protocol, transport = WebSocketProtocol(SimpleNamespace(loaded_app=None), None, None), FakeTransport()
    protocol._transport, protocol._begun = transport, True
    protocol.data_received(encode(kind, b"x" * (HIGH_WATER + 1), masked=True))
    assert not transport.reading
    event = await protocol._receive()
    assert len(event.get("bytes") or event.get("text") or b"") == HIGH_WATER + 1
    assert transport.reading


async def test_who_does_not_read_is_sent_no_answer_to_a_ping() -> None:
    protocol, transport = WebSocketProtocol(SimpleNamespace(loaded_app=None), None, None), FakeTransport()
    protocol._transport, protocol._begun = transport, True
    protocol.pause_writing()
    protocol.data_received(encode(PING, b"there?", masked=True))
    assert transport.written == b""
    protocol.resume_writing()
    protocol.data_received(encode(PING, b"there?", masked=True))
    assert transport.written == encode(PONG, b"there?")


def test_a_token_is_an_instance_or_the_operator_or_unknown() -> None:
    config = make_config()
    assert authenticate(config, f"Bearer {TOKEN}".encode()).instance == "mcqa"
    assert authenticate(config, f"bearer {OPERATOR_TOKEN}".encode()).operator
    for header in (None, b"", b"Bearer", b"Bearer x", b"Bearer " + config.instances["mcqa"].token_sha256.encode()):
        with pytest.raises(RequestRefused) as refused:
            authenticate(config, header)
        assert refused.value.status == 401
    without = config.model_copy(update={"operator_sha256": None})
    for header in (None, b"Bearer -", b"Bearer "):
        with pytest.raises(RequestRefused):
            authenticate(without, header)


def test_a_configuration_that_is_none_is_one_paragraph(tmp_path: Path) -> None:
    path = tmp_path / "sandbox.json"
    for text in (b"", b"{", b"[]", b'{"stack": "s", "colour": 1}'):
        path.write_bytes(text)
        with pytest.raises(UserError, match="is not a configuration of a broker"):
            read_config({ENV_FILE: str(path)})
    with pytest.raises(UserError, match="cannot be read"):
        read_config({ENV_FILE: str(tmp_path / "absent")})
    config = make_config()
    path.write_bytes(config.model_dump_json().encode())
    assert read_config({ENV_FILE: str(path)}).stack == "unit"
    posing = config.model_copy(update={"instances": {"operator": config.instances["mcqa"]}})
    path.write_bytes(posing.model_dump_json().encode())
    with pytest.raises(UserError, match="operator, not of an instance"):
        read_config({ENV_FILE: str(path)})


def test_the_audit_log_is_one_json_line_an_event_and_long_words_are_cut(tmp_path: Path) -> None:
    audit = Audit(str(tmp_path / "audit.log"))
    audit.note("exec", argv=("echo", "x" * 5000), seconds=1.23456789, user=None)
    audit.note("create", why="two\nlines")
    audit.close()
    first, second = (orjson.loads(line) for line in (tmp_path / "audit.log").read_text().splitlines())
    assert len(first["argv"]) < 400
    assert first["seconds"] == 1.2346
    assert "user" not in first
    assert second["why"] == "two\nlines"


async def test_background_work_is_cancelled_at_the_end_and_none_is_left() -> None:
    tasks, ended = BackgroundTasks(), list[str]()

    async def stubborn() -> None:
        try:
            await asyncio.sleep(600)
        finally:
            ended.append("yes")

    tasks.spawn(stubborn(), "stubborn")
    await asyncio.sleep(0)
    await tasks.aclose()
    assert ended == ["yes"]


def test_an_error_without_a_text_is_said_by_its_name() -> None:
    assert engine_failure(TimeoutError()).message == "the sandbox engine: TimeoutError"
    assert image_failure(ConnectionResetError(), SandboxSpec(image="x")).message.endswith("built: ConnectionResetError")

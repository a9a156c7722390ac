"""Frames: what is packed comes out again, however the bytes are cut; what is not a frame is said to be none."""

from __future__ import annotations

import struct

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from gym.broker.channel import frames
from gym.broker.channel.frames import Frame, FrameDecoder, FrameError, Option
from gym.wire.sandbox import Rlimits

a_frame = st.builds(Frame, st.integers(1, 255), st.integers(0, 2**32 - 1), st.binary(max_size=300))


@given(st.lists(a_frame, max_size=8), st.lists(st.integers(1, 40), min_size=1, max_size=30))
def test_frames_come_out_however_the_bytes_are_cut(sent: list[Frame], cuts: list[int]) -> None:
    data = b"".join(frames.encode_frame(*frame) for frame in sent)
    decoder, found, at = FrameDecoder(), [], 0
    for cut in (*cuts, len(data)):
        found += list(decoder.feed(data[at : at + cut]))
        at += cut
    assert found == sent


@given(a_frame, st.integers(0, 255))
def test_a_frame_without_its_end_is_none(frame: Frame, end: int) -> None:
    data = frames.encode_frame(*frame)[:-1] + bytes([end])
    if end == frames.END[0]:
        assert list(FrameDecoder().feed(data)) == [frame]
    else:
        with pytest.raises(FrameError):
            list(FrameDecoder().feed(data))


def test_a_frame_of_a_gigabyte_is_none() -> None:
    with pytest.raises(FrameError, match="a frame of 1073741824 bytes"):
        list(FrameDecoder().feed(frames.HEAD.pack(frames.STDOUT, 1, 1 << 30)))


@given(st.binary(max_size=500), st.binary(min_size=16, max_size=16))
def test_an_answer_is_found_in_the_middle_of_anything(before: bytes, nonce: bytes) -> None:
    answer = frames.encode_frame(frames.HELLO_BACK, 0, frames.HELLO_BODY.pack(nonce, frames.PROTOCOL, 7, 0, 0, 0))
    at = frames.find_hello(before + answer, nonce)
    assume(nonce not in (before + answer)[: len(before) + len(nonce) + frames.HEAD.size - 1])
    assert at == len(before)
    (frame,) = FrameDecoder().feed((before + answer)[at:])
    assert frames.decode_hello(frame.body) == (7, ())


def test_another_version_of_the_helper_is_said_to_be_one() -> None:
    with pytest.raises(FrameError, match="speaks version 99, not 1"):
        frames.decode_hello(frames.HELLO_BODY.pack(bytes(16), 99, 7, 0, 0, 0))


def test_names_of_kept_jobs_are_read() -> None:
    name = "job-ü".encode()
    body = frames.HELLO_BODY.pack(bytes(16), 1, 7, 0, 0, 1) + struct.pack("<II", 5, len(name)) + name
    assert frames.decode_hello(body) == (7, ((5, "job-ü"),))


def items_of(spec: bytes) -> list[tuple[bytes, bytes]]:
    found, at = [], 0
    while at < len(spec):
        tag, length = frames.ITEM.unpack_from(spec, at)
        found.append((bytes([tag]), spec[at + 5 : at + 5 + length]))
        at += 5 + length
    return found


def test_a_command_is_packed_with_all_it_asks_for() -> None:
    spec = frames.encode_spec(
        ["echo", "ü"],
        Option.KEEP | Option.TTY,
        env={"A": "1"},
        cwd="/",
        timeout=1.5,
        max_output=100,
        tty=(24, 80),
        limits=Rlimits(open_files=64),
        name="job",
    )
    assert items_of(spec) == [
        (b"o", struct.pack("<IQQHH", 18, 1500, 100, 24, 80)),
        (b"a", b"echo"),
        (b"a", "ü".encode()),
        (b"e", b"A=1"),
        (b"c", b"/"),
        (b"n", b"job"),
        (b"l", struct.pack("<iQ", 7, 64)),
    ]


def test_a_timeout_too_short_to_count_is_still_one() -> None:
    assert items_of(frames.encode_spec(["x"], Option(0), timeout=0.0001))[0][1][4:12] == struct.pack("<Q", 1)


@pytest.mark.parametrize("name", ["", "A=B"])
def test_a_variable_needs_a_name(name: str) -> None:
    with pytest.raises(ValueError, match="is not a name of an environment variable"):
        frames.encode_spec(["x"], Option(0), env={name: "1"})


@pytest.mark.parametrize(
    "asked", [{"argv": ["a\0b"]}, {"argv": ["x"], "cwd": "/\0"}, {"argv": ["x"], "env": {"A": "\0"}}]
)
def test_a_zero_byte_is_refused(asked: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="holds a zero byte"):
        frames.encode_spec(options=Option(0), **asked)  # type: ignore[arg-type]  # one of each


@given(st.binary(max_size=200_000))
def test_a_long_command_is_cut_into_frames(spec: bytes) -> None:
    *pieces, go = FrameDecoder().feed(frames.encode_run(3, spec))
    assert b"".join(piece.body for piece in pieces) == spec
    assert go == Frame(frames.GO, 3, b"")
    assert all(piece.type == frames.SPEC and len(piece.body) <= frames.MAX for piece in pieces)


def test_a_signal_is_distinguished_from_an_exit_code() -> None:
    by_signal = frames.decode_result(frames.RESULT_BODY.pack(-1, 9, 1, 2.0, 1.0, 4096))
    assert (by_signal.exit_code, by_signal.signal, by_signal.timed_out, by_signal.oom) == (None, 9, True, False)
    by_itself = frames.decode_result(frames.RESULT_BODY.pack(7, 0, 2, 2.0, 1.0, 4096))
    assert (by_itself.exit_code, by_itself.signal, by_itself.timed_out, by_itself.oom) == (7, None, False, True)


def test_entries_are_read_with_odd_names() -> None:
    fields = ("link", "3", "777", "12.500000000", "0", "1", "a\nb", "to", "file", "0", "644", "1.0", "0", "0", "c", "")
    first, second = frames.decode_entries(b"".join(f"{field}\0".encode() for field in fields))
    assert (first.kind, first.path, first.target, first.mode, first.mtime) == ("link", "a\nb", "to", 0o777, 12.5)
    assert (second.kind, second.path, second.target) == ("file", "c", None)

"""The body of `POST /rollouts` while it is read: large ones lie on the disk, unless a key is in them."""

from __future__ import annotations

import io
import tempfile
from typing import Any

import pytest
from starlette.requests import Request

from gym.collect.row_tools import RowTools
from gym.console import rollout_streams
from gym.console.rollout_streams import _parse_options, _read_body, _read_order, _refuse_bad_rows
from gym.errors import UserError

LINE = b'{"responses_create_params": {"input": "' + b"x" * 1000 + b'"}}\n'
KEY = b'{"policy_api_key": "sk-canary-0123456789"}\n'


def request(*chunks: bytes) -> Request:
    left = list(chunks)

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": left.pop(0), "more_body": bool(left)}

    return Request({"type": "http", "method": "POST", "headers": []}, receive)


async def test_a_large_body_goes_to_the_disk_and_one_with_a_key_does_not() -> None:
    plain = await _read_body(request(LINE * 1000, LINE * 1000))
    keyed = await _read_body(request(LINE * 2000, KEY[:10], KEY[10:], LINE * 2000))
    assert isinstance(plain, tempfile.SpooledTemporaryFile)
    assert plain.fileno()
    assert isinstance(keyed, io.BytesIO)
    assert keyed.read() == LINE * 2000 + KEY + LINE * 2000
    assert plain.read() == LINE * 2000
    plain.close()


async def test_rows_with_keys_are_taken_up_to_what_memory_bears(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rollout_streams, "MAX_BYTES_WITH_KEYS", 1 << 20)
    with pytest.raises(UserError, match="larger than 1 MiB"):
        await _read_body(request(KEY, LINE * 2000))


def test_a_files_mark_and_its_blank_lines_are_not_rows() -> None:
    rows, _ = _read_order(io.BytesIO(b"\xef\xbb\xbf" + LINE + b"\n\r\n" + LINE), "", {})
    assert rows is not None
    _refuse_bad_rows(rows, "rows", "math", ["math"], RowTools())


def test_an_option_of_groups_is_the_nearest_too() -> None:
    with pytest.raises(UserError, match="there is no option 'siz'") as refused:
        _parse_options({"siz": "2"})
    assert refused.value.hint == "did you mean size?"

"""A packed file of a hub that would fill a disk is left half-way, and one that is well packed is not."""

from __future__ import annotations

import gzip
import io
from pathlib import Path

import pytest

from gym.data.registries import joining
from gym.errors import UserError


def test_what_packs_better_than_any_data_set_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(joining, "MAX_UNPACKED", 1 << 20)
    path = tmp_path / "train.jsonl.gz"
    path.write_bytes(gzip.compress(b'{"a": 1}\n' * 6_000_000))
    out = io.BytesIO()
    with pytest.raises(UserError, match="200 times its size"):
        joining.copy_lines(path, out, "train.jsonl.gz")
    assert len(out.getvalue()) <= (1 << 20) + 200 * path.stat().st_size
    path.write_bytes(gzip.compress(b"".join(b'{"row": %d}\n' % number for number in range(300_000))))
    out = io.BytesIO()
    joining.copy_lines(path, out, "train.jsonl.gz")
    assert out.getvalue().count(b"\n") == 300_000

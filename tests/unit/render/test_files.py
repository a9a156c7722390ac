from __future__ import annotations

import os
import threading
from contextlib import suppress
from pathlib import Path

import pytest

from gym.files import open_atomically, write_atomically


def test_a_file_is_written_with_its_folder_and_for_its_owner_only(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "file.yml"
    assert write_atomically(path, "ü\n")
    assert path.read_text(encoding="utf-8") == "ü\n"
    assert path.stat().st_mode & 0o777 == 0o600


def test_the_same_text_touches_nothing(tmp_path: Path) -> None:
    path = tmp_path / "file.yml"
    write_atomically(path, "a")
    before = path.stat()
    assert not write_atomically(path, "a")
    assert (path.stat().st_ino, path.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
    assert write_atomically(path, "a", mode=0o644)
    assert write_atomically(path, "b", durable=True)


def test_a_reader_never_sees_half_a_file(tmp_path: Path) -> None:
    path = tmp_path / "file.yml"
    texts = {letter * 20_000 for letter in "ab"}
    write_atomically(path, min(texts))
    stop = threading.Event()
    seen: set[str] = set()

    def read() -> None:
        while not stop.is_set():
            seen.add(path.read_text())

    reader = threading.Thread(target=read)
    reader.start()
    for _ in range(100):
        for text in texts:
            write_atomically(path, text)
    stop.set()
    reader.join()
    assert seen <= texts


def test_a_failed_write_leaves_the_old_file_and_no_other(tmp_path: Path) -> None:
    path = tmp_path / "taken"
    path.mkdir()
    with pytest.raises(OSError, match="directory"):
        write_atomically(path, "a")
    assert os.listdir(tmp_path) == ["taken"]  # noqa: PTH208 (hidden files are the point)


def test_a_stream_takes_the_place_of_the_file_at_its_end_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "rows.jsonl"
    with open_atomically(path) as stream:
        stream.write(b"1\n")
        assert not path.exists()
    with suppress(KeyError), open_atomically(path) as stream:
        stream.write(b"2\n")
        raise KeyError("the source broke off")
    assert path.read_bytes() == b"1\n"
    assert os.listdir(path.parent) == ["rows.jsonl"]  # noqa: PTH208 (hidden files are the point)

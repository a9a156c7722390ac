"""Trees as tar: what archives try, and that nothing lands outside the directory or grows without end."""

from __future__ import annotations

import gzip
import io
import re
import tarfile
from collections.abc import AsyncIterator
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gym.broker import tree
from gym.broker.errors import RequestRefused
from gym.broker.tree import check_link, pack_tree, plain_name, unpack_tree
from gym.wire.sandbox import FileInfo
from tests.support.sandbox_broker import MemoryChannel, MemoryEngine

BIG = 1 << 30
Entry = tuple[str, bytes, str, str]  # name, tar's type, content, link


class Sink(MemoryChannel):
    """Notes links and directories too."""

    def __init__(self) -> None:
        super().__init__(MemoryEngine())
        self.links: dict[str, str] = {}
        self.dirs: dict[str, int | None] = {}

    async def make_dir(self, path: str, *, mode: int | None = None) -> None:
        self.dirs[path] = mode

    async def make_link(self, path: str, target: str) -> None:
        self.links[path] = target


def make_tar(*entries: Entry, format: int = tarfile.PAX_FORMAT) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=format) as tar:
        for name, kind, content, link in entries:
            info = tarfile.TarInfo(name)
            info.type, info.linkname, info.mode, info.mtime = kind, link, 0o640, 1000
            info.size = len(content.encode()) if kind == tarfile.REGTYPE else 0
            tar.addfile(info, io.BytesIO(content.encode()))
    return packed.getvalue()


def file(name: str, content: str = "x") -> Entry:
    return name, tarfile.REGTYPE, content, ""


def link(name: str, target: str) -> Entry:
    return name, tarfile.SYMTYPE, "", target


async def chunked(data: bytes, size: int = 700) -> AsyncIterator[bytes]:
    for at in range(0, len(data), size):
        yield data[at : at + size]


async def unpack(tar: bytes, max_bytes: int = BIG, size: int = 700) -> Sink:
    sink = Sink()
    await unpack_tree(sink, "/work", chunked(tar, size), max_bytes)
    return sink


async def refusal(tar: bytes, max_bytes: int = BIG) -> str:
    with pytest.raises(RequestRefused) as raised:
        await unpack(tar, max_bytes)
    return str(raised.value)


@pytest.mark.parametrize("format", [tarfile.PAX_FORMAT, tarfile.GNU_FORMAT])
@pytest.mark.parametrize("size", [1, 512, 100_000])
async def test_files_directories_and_links_arrive_whatever_the_pieces_they_come_in(format: int, size: int) -> None:
    long = "d/" * 80 + "ünï"
    tar = make_tar(
        ("d", tarfile.DIRTYPE, "", ""), file("d/a", "é" * 1000), link("d/l", "a"), file(long, "deep"), format=format
    )
    sink = await unpack(tar, size=size)
    assert sink.files == {"/work/d/a": "é".encode() * 1000, f"/work/{long}": b"deep"}
    assert sink.links == {"/work/d/l": "a"}
    assert sink.dirs["/work/d"] == 0o640


async def test_a_gzip_is_unpacked_on_the_way() -> None:
    sink = await unpack(gzip.compress(make_tar(file("a", "content"))))
    assert sink.files == {"/work/a": b"content"}


async def test_an_absolute_name_lands_below_the_directory() -> None:
    sink = await unpack(make_tar(file("/etc/passwd", "root")))
    assert sink.files == {"/work/etc/passwd": b"root"}


async def test_a_hard_link_becomes_a_copy() -> None:
    sink = await unpack(make_tar(file("a", "same"), ("b", tarfile.LNKTYPE, "", "a")))
    assert sink.files == {"/work/a": b"same", "/work/b": b"same"}


@pytest.mark.parametrize(
    ("entries", "words"),
    [
        ([file("../up")], r"\.\."),
        ([file("a/../../up")], r"\.\."),
        ([link("l", "/etc")], "leads out"),
        ([link("l", "../..")], "leads out"),
        ([link("d/l", "../../x")], "leads out"),
        ([link("l", "d"), file("l/f")], "through 'l'"),
        ([link("l", "d"), file("l")], "twice"),
        ([link("a", "b"), link("a/c", "d")], "through"),
        ([("h", tarfile.LNKTYPE, "", "/etc/shadow")], "not a file of this tar"),
        ([("h", tarfile.LNKTYPE, "", "../x")], r"\.\."),
        ([("dev", tarfile.CHRTYPE, "", "")], "devices"),
        ([("dev", tarfile.BLKTYPE, "", "")], "devices"),
        ([("pipe", tarfile.FIFOTYPE, "", "")], "devices"),
    ],
)
async def test_an_archive_that_reaches_out_is_refused(entries: list[Entry], words: str) -> None:
    assert re.search(words, await refusal(make_tar(*entries)))


async def test_an_archive_larger_than_the_sandbox_may_hold_is_refused_before_it_is_written() -> None:
    assert "more than 1000 bytes" in await refusal(make_tar(file("a", "x" * 999), file("b", "xx")), max_bytes=1000)


async def test_a_gzip_bomb_is_refused_by_its_headers_and_never_unfolded() -> None:
    info = tarfile.TarInfo("bomb")
    info.size = 1 << 40
    assert "more than" in await refusal(gzip.compress(info.tobuf() + bytes(1 << 22)))


async def test_copies_made_by_hard_links_count_as_well() -> None:
    entries = [file("a", "x" * 600), *((f"h{n}", tarfile.LNKTYPE, "", "a") for n in range(5))]
    assert "more than" in await refusal(make_tar(*entries), max_bytes=1500)


async def test_too_many_entries_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tree, "MAX_ENTRIES", 10)
    assert "more than 10 entries" in await refusal(make_tar(*(file(str(n)) for n in range(11))))


async def test_an_extended_header_without_end_is_refused() -> None:
    info = tarfile.TarInfo("x")
    info.type, info.size = tarfile.XHDTYPE, 1 << 30
    assert "without end" in await refusal(info.tobuf() + bytes(5000))


@pytest.mark.parametrize("stamp", ["nan", "inf", "-inf", "1e300", "1e15"])
async def test_a_time_that_is_none_is_refused(stamp: str) -> None:
    whole = io.BytesIO()
    with tarfile.open(fileobj=whole, mode="w", format=tarfile.PAX_FORMAT) as tar:
        entry = tarfile.TarInfo("x")
        entry.pax_headers = {"mtime": stamp}
        tar.addfile(entry)
    with pytest.raises(RequestRefused, match="its time"):
        await unpack(whole.getvalue())


async def test_a_length_of_thousands_of_digits_is_refused() -> None:
    head = tarfile.TarInfo("pax")
    head.type, head.size = b"x", 6000
    with pytest.raises(RequestRefused, match="broken extended header"):
        await unpack(head.tobuf() + b"1" * 5000 + b" a=b\n" + bytes(6144 - 5005) + bytes(1024))


async def test_what_is_cut_or_no_tar_is_refused() -> None:
    assert "breaks off" in await refusal(make_tar(file("a", "x" * 5000))[:2000])
    assert "not a tar" in await refusal(b"not a tar at all" * 100)
    assert "gzip is broken" in await refusal(b"\x1f\x8b" + b"\xff" * 600)


@given(st.text(max_size=60))
def test_a_name_never_leads_above_the_top(name: str) -> None:
    try:
        plain = plain_name(name)
    except RequestRefused:
        return
    assert not plain.startswith("/")
    assert ".." not in plain.split("/")


@given(st.lists(st.sampled_from(["..", ".", "a", "b", ""]), max_size=8), st.integers(0, 3))
def test_a_link_that_is_let_through_ends_below_the_top(parts: list[str], depth: int) -> None:
    name, target = "d/" * depth + "link", "/".join(parts)
    try:
        check_link(name, target)
    except RequestRefused:
        return
    height = depth
    for part in target.split("/"):
        height += {"..": -1, ".": 0, "": 0}.get(part, 1)
    assert height >= 0
    assert not target.startswith("/")


@given(st.binary(max_size=3000))
async def test_whatever_bytes_are_sent_the_answer_is_a_refusal_or_an_empty_tree(data: bytes) -> None:
    with suppress(RequestRefused):
        sink = await unpack(data)
        assert not sink.files


class Tree(MemoryChannel):
    """What `list` tells may be wrong by the time a file is read."""

    sizes: dict[str, int]

    async def list(self, path: str, *, recursive: bool = False) -> list[FileInfo]:
        found = [
            FileInfo(path=f"/work/{name}", kind="file", size=size, mode=0o644) for name, size in self.sizes.items()
        ]
        return [*found, FileInfo(path="/work/l", kind="link", target="a"), FileInfo(path="/work/s", kind="other")]


async def test_a_file_that_changes_while_it_is_packed_keeps_the_archive_whole() -> None:
    source = Tree(MemoryEngine())
    source.files = {"/work/a": b"1234567890", "/work/b": b"12", "/work/c": b"12345"}
    source.sizes = {"a": 5, "b": 600, "c": 5}
    packed = b"".join([piece async for piece in pack_tree(source, "/work")])
    with tarfile.open(fileobj=io.BytesIO(packed)) as tar:
        found = {one.name: tar.extractfile(one) for one in tar.getmembers() if one.isreg()}
        read = {name: file.read() for name, file in found.items() if file is not None}
        assert tar.getmember("l").linkname == "a"
        assert "s" not in tar.getnames()
    assert read == {"a": b"12345", "b": b"12" + bytes(598), "c": b"12345"}

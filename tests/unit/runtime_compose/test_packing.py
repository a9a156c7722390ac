"""What goes into a packed image, and what comes out of one."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import pytest

from gym.errors import InfraError, UserError
from gym.render.pack import PackManifest
from gym.runtime.compose import packed_images
from gym.runtime.compose.packed_images import explain_pull, extract_pack
from gym.runtime.compose.packing import EPOCH, PackContent, stage_pack
from tests.support.tar_bombs import bare_header, sparse

SERVER = "servers/resources/letters"


def write(folder: Path, *names: str) -> Path:
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    return folder


def staged(tmp_path: Path, server: Path, **more: dict[str, Path]) -> set[str]:
    manifest = PackManifest(
        name="letters", type="resources_servers", server=SERVER, config=f"{SERVER}/configs/letters.yaml"
    )
    content = PackContent(manifest, server, more.get("along", {}), more.get("files", {}))
    stage_pack(content, tmp_path / "out")
    return {path.relative_to(tmp_path / "out").as_posix() for path in (tmp_path / "out").rglob("*") if path.is_file()}


def test_a_server_comes_whole_with_its_tests_and_rows(tmp_path: Path) -> None:
    names = ("app.py", "data/train.jsonl", "data/verifier_cases.jsonl", "tests/test_app.py", "README.md", "LICENSE")
    found = staged(tmp_path, write(tmp_path / "letters", *names))
    assert found == {f"{SERVER}/{name}" for name in names}


def test_caches_secrets_and_collections_of_this_machine_stay_behind(tmp_path: Path) -> None:
    left = ("env.yaml", ".env", ".gym/gym/secrets/key", "__pycache__/app.pyc", ".git/config", ".venv/x")
    collected = ("out.jsonl", "out_run.json", "out_failures.jsonl")
    found = staged(tmp_path, write(tmp_path / "letters", "app.py", "rows.jsonl", *left, *collected))
    assert found == {f"{SERVER}/app.py", f"{SERVER}/rows.jsonl"}


def test_agents_come_as_their_images_are_built_and_rows_under_the_path_that_names_them(tmp_path: Path) -> None:
    server = write(tmp_path / "letters", "app.py")
    agent = write(tmp_path / "mine", "app.py", "tests/test_app.py", "data/train.jsonl")
    rows = write(tmp_path / "rows", "a.jsonl")
    found = staged(tmp_path, server, along={"servers/agents/mine": agent}, files={"data/a.jsonl": rows / "a.jsonl"})
    assert found == {f"{SERVER}/app.py", "servers/agents/mine/app.py", "data/a.jsonl"}


def test_nothing_in_a_pack_has_a_clock_or_the_rights_of_its_author(tmp_path: Path) -> None:
    server = write(tmp_path / "letters", "app.py", "run.sh")
    (server / "app.py").chmod(0o600)
    (server / "run.sh").chmod(0o700)
    staged(tmp_path, server)
    facts = [path.stat() for path in (tmp_path / "out").rglob("*")]
    assert {one.st_mtime for one in facts} == {float(EPOCH)}
    modes = {path.name: path.stat().st_mode & 0o777 for path in (tmp_path / "out" / SERVER).iterdir()}
    assert modes == {"app.py": 0o644, "run.sh": 0o755}


def archive(*members: tuple[str, bytes, str]) -> io.BytesIO:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as tar:
        for name, type_, link in members:
            entry = tarfile.TarInfo(name)
            entry.type, entry.linkname, entry.mode = type_, link, 0o6777
            tar.addfile(entry)
    file.seek(0)
    return file


@pytest.mark.parametrize(
    "member",
    [
        ("pack/link", tarfile.SYMTYPE, "/etc/passwd"),
        ("pack/hard", tarfile.LNKTYPE, "pack/a"),
        ("pack/device", tarfile.CHRTYPE, ""),
        ("pack/pipe", tarfile.FIFOTYPE, ""),
        ("../outside", tarfile.REGTYPE, ""),
    ],
)
def test_an_image_cannot_write_outside_of_its_folder(tmp_path: Path, member: tuple[str, bytes, str]) -> None:
    with pytest.raises(UserError, match="is refused"):
        extract_pack(archive(member), tmp_path / "out", "x:1")
    assert not (tmp_path / "outside").exists()


def test_files_come_out_without_the_rights_that_their_author_gave_them(tmp_path: Path) -> None:
    extract_pack(archive(("pack", tarfile.DIRTYPE, ""), ("pack/a", tarfile.REGTYPE, "")), tmp_path / "out", "x:1")
    assert (tmp_path / "out" / "pack" / "a").stat().st_mode & 0o7777 == 0o755


@pytest.mark.parametrize(
    ("words", "kind", "message"),
    [
        ("denied: requested access to the resource is denied", UserError, "docker login registry.example:5000;"),
        ("unauthorized: authentication required", UserError, "denies it"),
        ("no basic auth credentials", UserError, "denies it"),
        ("manifest for x not found: manifest unknown", UserError, "no such image"),
        ("no matching manifest for linux/amd64 in the manifest list entries", UserError, "architecture"),
        ("dial tcp 127.0.0.1:5000: connect: connection refused", InfraError, "Is the registry up"),
        ("", InfraError, "no answer"),
    ],
)
def test_a_pull_that_fails_says_what_to_do(words: str, kind: type[Exception], message: str) -> None:
    error = explain_pull("registry.example:5000/team/x:1", f"Error response from daemon: {words}" if words else "")
    assert isinstance(error, kind)
    assert message in str(error)


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (sparse("pack/a", 1 << 30), "is not a plain file"),
        (bare_header("pack/a", b"x", 1 << 30), "a header without end"),
        (bare_header("pack/a", b"L", 1 << 30), "a header without end"),
        (b"".join(bare_header(f"pack/{number}", tarfile.REGTYPE, 0) for number in range(40)), "more than 20 files"),
    ],
    ids=["a sparse file", "a pax header", "a long name", "files without end"],
)
def test_what_would_fill_a_disk_or_the_memory_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, data: bytes, why: str
) -> None:
    monkeypatch.setattr(packed_images, "MAX_FILES", 20)
    with pytest.raises(UserError, match=why):
        extract_pack(io.BytesIO(data + bytes(1024)), tmp_path / "out", "x:1")
    assert sum(path.stat().st_size for path in tmp_path.rglob("*") if path.is_file()) == 0

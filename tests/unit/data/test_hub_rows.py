"""The rows of a split that a hub keeps in parts: joined as they are, or an error that names the part."""

from __future__ import annotations

import gzip
import importlib
from pathlib import Path

import pytest

from gym.data.registries import Received, RegistryAddress, read_access
from gym.data.registries.hub import Hub as HubRegistry
from gym.data.registries.transfer import Retries
from gym.errors import GymError, InfraError, UserError
from tests.support.hub import TOKEN, Hub

NAME = "us/rows"
ROW = b'{"responses_create_params": {"input": []}, "id": %d}\n'
ROWS = b"".join(ROW % number for number in range(500))
BOM = b"\xef\xbb\xbf"
CARD = b"---\nconfigs:\n- {config_name: main, data_files: a.jsonl}\n- {config_name: other, data_files: b.jsonl}\n---\n"
CSV_CARD = b"---\nconfigs:\n- {config_name: main, data_files: rows.csv}\n---\n"


def take(hub: Hub, out: Path, config: str = "", split: str = "train") -> Received:
    registry = HubRegistry(read_access({"hf_endpoint": hub.url, "hf_token": TOKEN}, {}), Retries(waits=()))
    return registry.download(RegistryAddress("huggingface", NAME), out / "t.jsonl", split=split, config=config)


def write_parquet(path: Path, count: int) -> bytes:
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    parquet.write_table(arrow.table({"n": arrow.array(range(count), arrow.int64())}), path)
    return path.read_bytes()


@pytest.fixture
def out(tmp_path: Path) -> Path:
    (tmp_path / "out").mkdir()
    return tmp_path / "out"


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("train-1.jsonl.gz", gzip.compress(ROWS, mtime=0)[:-200]),
        ("train-1.jsonl.gz", ROWS),
        ("train-1.jsonl.zst", ROWS),
    ],
)
def test_a_damaged_part_is_named_and_nothing_is_left(hub: Hub, out: Path, name: str, content: bytes) -> None:
    hub.add(NAME, {"data/train-0.jsonl": ROWS, f"data/{name}": content})
    with pytest.raises(InfraError, match=rf"hf:us/rows@\w+: data/{name} cannot be read: ") as caught:
        take(hub, out)
    assert "the file is damaged" in caught.value.hint
    assert list(out.iterdir()) == []


def test_a_damaged_parquet_file_is_named_and_nothing_is_left(hub: Hub, out: Path, tmp_path: Path) -> None:
    content = write_parquet(tmp_path / "x.parquet", 5000)
    hub.add(NAME, {"train/0.parquet": content, "train/1.parquet": content[:4] + bytes(500) + content[504:]})
    with pytest.raises(InfraError, match=r"train/1\.parquet is not a parquet file"):
        take(hub, out)
    assert list(out.iterdir()) == []


def test_parts_that_came_stay_for_the_next_command_when_one_does_not(hub: Hub, out: Path) -> None:
    hub.add(NAME, {"train-0.jsonl": ROWS, "train-1.jsonl": ROWS})
    hub.faults.answer("train-1.jsonl", 503)
    with pytest.raises(GymError):
        take(hub, out)
    assert (out / ".t.jsonl.parts" / "train-0.jsonl").read_bytes() == ROWS
    assert take(hub, out).path.read_bytes() == ROWS * 2
    assert hub.faults.ranges("train-0.jsonl") == [""]
    assert [path.name for path in out.iterdir()] == ["t.jsonl"]


def test_without_zstd_nothing_is_fetched(hub: Hub, out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hub.add(NAME, {"train-0.jsonl.zst": b"?"})
    real = importlib.import_module

    def import_module(name: str, package: str | None = None) -> object:
        if name.endswith(".zstd"):
            raise ImportError(name)
        return real(name, package)

    monkeypatch.setattr(importlib, "import_module", import_module)
    with pytest.raises(UserError, match="this Python has no zstd"):
        take(hub, out)
    assert hub.faults.ranges(".zst") == []


def test_the_mark_before_the_first_line_of_a_part_is_left_out(hub: Hub, out: Path) -> None:
    hub.add(NAME, {"train-0.jsonl": BOM + ROWS, "train-1.jsonl.gz": gzip.compress(BOM + ROWS), "train-2.jsonl": BOM})
    got = take(hub, out)
    assert got.path.read_bytes() == ROWS * 2
    assert got.notes == ()


def test_a_split_without_rows_says_so(hub: Hub, out: Path, tmp_path: Path) -> None:
    hub.add(NAME, {"train.jsonl": b"\n", "test-0.jsonl": b"", "test-1.jsonl": b" \n\n", "val.jsonl": ROWS})
    assert take(hub, out).notes == ("it has no rows",)
    assert take(hub, out, split="test").notes == ("it has no rows",)
    assert take(hub, out, split="validation").notes == ()
    hub.add(NAME, {"dev/0.parquet": write_parquet(tmp_path / "x.parquet", 0)})
    assert take(hub, out, split="dev").notes == ("it has no rows",)


def test_a_configuration_is_chosen_by_its_name(hub: Hub, out: Path) -> None:
    hub.add(NAME, {"README.md": CARD, "a.jsonl": ROWS, "b.jsonl": ROWS[:1000]})
    assert take(hub, out, "other").path.read_bytes() == ROWS[:1000]
    with pytest.raises(UserError, match="hf:us/rows: it has several configurations, and none is the default"):
        take(hub, out)


@pytest.mark.parametrize(("config", "readme"), [("main", {}), ("", {"README.md": CSV_CARD})])
def test_the_hubs_own_copy_is_of_the_same_configuration(
    hub: Hub, out: Path, tmp_path: Path, config: str, readme: dict[str, bytes]
) -> None:
    content = write_parquet(tmp_path / "x.parquet", 2)
    hub.add(NAME, {"rows.csv": b"n\n", "train.jsonl": ROWS, **readme})
    files = {"main/partial-train/0000.parquet": content, "more/train/0000.parquet": b"?"}
    hub.add(NAME, files, revision="refs/convert/parquet")
    got = take(hub, out, config)
    assert got.path.read_bytes() == b'{"n":0}\n{"n":1}\n'
    assert "only the first rows" in got.notes[0]
    with pytest.raises(UserError, match="hf:us/rows has no split 'test': it has train"):
        take(hub, out, config, split="test")


def test_several_configurations_of_the_copy_are_named(hub: Hub, out: Path) -> None:
    hub.add(NAME, {"rows.csv": b"n\n"})
    files = {"main/train/0000.parquet": b"?", "more/train/0000.parquet": b"?"}
    hub.add(NAME, files, revision="refs/convert/parquet")
    with pytest.raises(UserError, match="none is the default: main, more"):
        take(hub, out)

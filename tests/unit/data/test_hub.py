"""A hub through its own client: what is fetched is whole and right, what is uploaded says what it replaced."""

from __future__ import annotations

import gzip
import json
import sys
import threading
from pathlib import Path

import pytest

from gym.data.registries import RegistryAddress, UploadOptions, parse_address, read_access
from gym.data.registries.hub import Hub as HubRegistry
from gym.data.registries.transfer import Retries
from gym.data.registries.upload_check import name_of_split
from gym.errors import ConfigError, GymError, InfraError, UserError
from gym.programs import install_command
from tests.support.hub import TOKEN, Hub

NAME = "nvidia/Nemotron-RL-agent-workplace_assistant"
WORK = RegistryAddress("huggingface", NAME)
ROW = b'{"responses_create_params": {"input": []}, "id": %d}\n'
ROWS = b"".join(ROW % number for number in range(500))
ONCE = Retries(waits=())


def connect(hub: Hub, *, token: str = TOKEN, waits: tuple[float, ...] = (0, 0)) -> HubRegistry:
    settings = {"hf_endpoint": hub.url, "hf_token": token}
    return HubRegistry(read_access(settings, {}), Retries(waits=waits))


def left_behind(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.fixture
def out(tmp_path: Path) -> Path:
    (tmp_path / "out").mkdir()
    return tmp_path / "out"


@pytest.mark.parametrize(("lfs_above", "verified"), [(10 << 20, "git"), (100, "sha256")])
def test_a_split_and_a_file_are_fetched_and_checked(hub: Hub, out: Path, lfs_above: int, verified: str) -> None:
    hub.add(NAME, {"train.jsonl": ROWS, "validation.jsonl": ROWS[:1000], "README.md": b"# Rows\n"})
    hub.lfs_above = lfs_above
    got = connect(hub).download(WORK, out / "t.jsonl", split="train")
    assert (got.path.read_bytes(), got.verified, got.replaced) == (ROWS, verified, False)
    assert got.source == f"hf:{NAME}@{hub.repos[NAME].head[:12]}: train.jsonl"
    got = connect(hub).download(WORK, out / "t.jsonl", file="validation.jsonl")
    assert (got.path.read_bytes(), got.replaced) == (ROWS[:1000], True)
    assert left_behind(out) == ["t.jsonl"]


def test_what_is_there_already_is_not_fetched_again(hub: Hub, out: Path) -> None:
    hub.add(NAME, {"train.jsonl": ROWS})
    for _ in range(2):
        connect(hub).download(WORK, out / "t.jsonl", file="train.jsonl")
    assert hub.faults.ranges("train.jsonl") == [""]


@pytest.mark.parametrize("lfs_above", [10 << 20, 100])
def test_a_download_that_was_cut_off_goes_on_by_itself(hub: Hub, out: Path, lfs_above: int) -> None:
    hub.add(NAME, {"train.jsonl": ROWS})
    hub.lfs_above = lfs_above
    hub.faults.cut_off("/cdn/" if lfs_above == 100 else "train.jsonl", after=5000)
    connect(hub).download(WORK, out / "t.jsonl", file="train.jsonl")
    assert (out / "t.jsonl").read_bytes() == ROWS
    assert "bytes=5000-" in hub.faults.ranges("/cdn/" if lfs_above == 100 else "train.jsonl")
    assert not any(one.authorized for one in hub.faults.seen if one.path.startswith("/cdn/"))


def test_the_next_command_goes_on_where_the_last_one_ended(hub: Hub, out: Path) -> None:
    hub.add(NAME, {"train.jsonl": ROWS})
    hub.faults.cut_off("train.jsonl", after=5000)
    hub.faults.answer("train.jsonl", 503)
    with pytest.raises(InfraError, match="could not be fetched") as caught:
        connect(hub, waits=()).download(WORK, out / "t.jsonl", file="train.jsonl")
    assert "5,000 of" in caught.value.hint
    assert not (out / "t.jsonl").exists()
    connect(hub, waits=()).download(WORK, out / "t.jsonl", file="train.jsonl")
    assert (out / "t.jsonl").read_bytes() == ROWS
    assert hub.faults.ranges("train.jsonl") == ["", "bytes=5000-", "bytes=5000-"]
    assert left_behind(out) == ["t.jsonl"]


def test_a_file_that_changed_meanwhile_is_not_glued_to_the_old_one(hub: Hub, out: Path) -> None:
    hub.add(NAME, {"train.jsonl": ROWS})
    hub.faults.cut_off("train.jsonl", after=5000)
    hub.faults.answer("train.jsonl", 503)
    with pytest.raises(InfraError):
        connect(hub, waits=()).download(WORK, out / "t.jsonl", file="train.jsonl")
    hub.add(NAME, {"train.jsonl": ROWS[::-1]})
    connect(hub).download(WORK, out / "t.jsonl", file="train.jsonl")
    assert (out / "t.jsonl").read_bytes() == ROWS[::-1]
    assert left_behind(out) == ["t.jsonl"]


def test_wrong_bytes_never_take_a_files_place(hub: Hub, out: Path) -> None:
    hub.add(NAME, {"train.jsonl": ROWS})
    (out / "t.jsonl").write_bytes(b"old\n")
    hub.faults.spoil("train.jsonl")
    with pytest.raises(InfraError, match="checksum"):
        connect(hub).download(WORK, out / "t.jsonl", file="train.jsonl")
    assert (out / "t.jsonl").read_bytes() == b"old\n"
    assert left_behind(out) == ["t.jsonl"]
    connect(hub).download(WORK, out / "t.jsonl", file="train.jsonl")
    assert (out / "t.jsonl").read_bytes() == ROWS


def test_a_hub_that_is_busy_is_waited_for_as_long_as_it_says(hub: Hub, out: Path) -> None:
    hub.add(NAME, {"train.jsonl": ROWS})
    hub.faults.answer("train.jsonl", 429, times=2, Retry_After="7")
    slept: list[float] = []
    registry = HubRegistry(read_access({"hf_endpoint": hub.url}, {}), Retries((1, 1), slept.append))
    registry.download(WORK, out / "t.jsonl", file="train.jsonl")
    assert slept == [7.0, 7.0]
    hub.faults.answer("train.jsonl", 429, times=3)
    with pytest.raises(InfraError, match="busy"):
        registry.download(WORK, out / "u.jsonl", file="train.jsonl")


def test_two_downloads_of_one_file_do_not_spoil_each_other(hub: Hub, out: Path) -> None:
    hub.add(NAME, {"train.jsonl": ROWS * 50})
    hub.faults.cut_off("train.jsonl", after=100_000, times=3)
    errors: list[BaseException] = []

    def download() -> None:
        try:
            connect(hub).download(WORK, out / "t.jsonl", split="train")
        except BaseException as error:  # noqa: BLE001 (shown by the assertion)
            errors.append(error)

    threads = [threading.Thread(target=download) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert (out / "t.jsonl").read_bytes() == ROWS * 50
    assert left_behind(out) == ["t.jsonl"]


def test_parts_and_compressed_files_become_one_file_of_lines(hub: Hub, out: Path) -> None:
    first, second = gzip.compress(ROWS.rstrip()), gzip.compress(ROWS)
    hub.add(NAME, {"data/train-0.jsonl.gz": first, "data/train-1.jsonl.gz": second})
    got = connect(hub).download(WORK, out / "t.jsonl", split="train")
    assert got.path.read_bytes() == ROWS * 2
    assert "and 1 more" in got.source
    assert left_behind(out) == ["t.jsonl"]


def test_parquet_becomes_lines_also_from_the_hubs_own_copy(hub: Hub, out: Path, tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    rows = [{"responses_create_params": {"input": [{"role": "user", "content": "é"}]}, "n": n} for n in range(3)]
    parquet.write_table(pyarrow.Table.from_pylist(rows), tmp_path / "x.parquet")
    content = (tmp_path / "x.parquet").read_bytes()
    hub.add(NAME, {"rows.csv": b"a,b\n"})
    hub.add(NAME, {"default/train/0000.parquet": content}, revision="refs/convert/parquet")
    got = connect(hub).download(WORK, out / "t.jsonl", split="train")
    assert [json.loads(line) for line in got.path.read_text("utf-8").splitlines()] == rows


def test_a_split_that_is_not_there_is_reported_with_those_that_are(hub: Hub, out: Path) -> None:
    hub.add(NAME, {"train.jsonl": ROWS})
    with pytest.raises(UserError, match="has no split 'validation': it has train"):
        connect(hub).download(WORK, out / "v.jsonl", split="validation")


def test_credentials_that_are_missing_or_wrong_are_named_and_never_shown(hub: Hub, out: Path) -> None:
    hub.add(NAME, {"train.jsonl": ROWS}, private=True)
    with pytest.raises(UserError, match=r"404.*") as caught:
        connect(hub, token="").download(WORK, out / "t.jsonl", split="train")
    assert "`hf_token: ...` into env.yaml" in caught.value.hint
    with pytest.raises(UserError, match="does not accept the token of `hf_token`") as caught:
        connect(hub, token="hf_wrong0123456789").download(WORK, out / "t.jsonl", split="train")
    assert "hf_wrong" not in str(caught.value)
    with pytest.raises(UserError, match=r"no such data set.*404"):
        connect(hub).download(parse_address("hf:nvidia/other"), out / "t.jsonl", split="train")
    with pytest.raises(UserError, match=r"no such data set, version or file \(404\)"):
        connect(hub).download(WORK, out / "t.jsonl", file="absent.jsonl")
    assert left_behind(out) == []


def test_a_token_is_used_and_a_listing_shows_files_and_data_sets(hub: Hub) -> None:
    hub.add(NAME, {"train.jsonl": ROWS}, private=True)
    (found,) = connect(hub).entries(WORK)
    assert (found.kind, found.name, found.size) == ("file", "train.jsonl", len(ROWS))
    (shown,) = connect(hub).entries(parse_address("hf:nvidia"))
    assert (shown.name, shown.note) == (f"hf:{NAME}", "private")
    assert connect(hub, token="").entries(parse_address("hf:nvidia")) == ()


@pytest.mark.filterwarnings("ignore:Use 'content=:DeprecationWarning")  # of the client to its HTTP package
@pytest.mark.parametrize("lfs_above", [10 << 20, 100])
def test_an_upload_makes_a_private_data_set_and_names_what_it_replaced(hub: Hub, out: Path, lfs_above: int) -> None:
    hub.lfs_above = lfs_above
    hub.collections["us/nemo-1"] = []
    (out / "train.jsonl").write_bytes(ROWS)
    address = parse_address("hf:us/Nemotron-RL-agent-mine")
    change = UploadOptions(message="First rows", description="All of them", collection="us/nemo-1")
    stored = connect(hub).upload(address, out / "train.jsonl", change)
    repo = hub.repos[address.name]
    assert repo.private
    assert hub.read(address.name, "train.jsonl") == ROWS
    assert repo.messages[-1] == ("First rows", "All of them")
    assert hub.collections["us/nemo-1"] == [address.name]
    assert (stored.replaced, stored.notes[0]) == ("", f"made {address.name}, private")
    before = repo.head
    (out / "train.jsonl").write_bytes(ROWS[: ROWS.index(b"\n") + 1])
    stored = connect(hub).upload(address, out / "train.jsonl", change)
    assert stored.replaced.startswith(f"{len(ROWS):,} bytes (")
    assert before[:12] in stored.replaced


def test_a_pull_request_leaves_the_main_branch_as_it_is(hub: Hub, out: Path) -> None:
    hub.add("us/mine", {"train.jsonl": ROWS})
    (out / "train.jsonl").write_bytes(ROWS * 2)
    stored = connect(hub).upload(parse_address("us/mine"), out / "train.jsonl", UploadOptions(pull_request=True))
    assert hub.read("us/mine", "train.jsonl") == ROWS
    assert hub.read("us/mine", "train.jsonl", "refs/pr/1") == ROWS * 2
    assert stored.url.endswith("/discussions/1")
    with pytest.raises(UserError, match="pull request"):
        connect(hub).upload(parse_address("us/mine@dev"), out / "train.jsonl", UploadOptions(pull_request=True))


def test_an_upload_goes_to_a_branch_that_is_there(hub: Hub, out: Path) -> None:
    hub.add("us/mine", {"train.jsonl": ROWS})
    hub.add("us/mine", {"train.jsonl": ROWS}, revision="dev")
    (out / "train.jsonl").write_bytes(ROWS * 2)
    connect(hub).upload(parse_address("us/mine@dev"), out / "train.jsonl", UploadOptions())
    assert (hub.read("us/mine", "train.jsonl"), hub.read("us/mine", "train.jsonl", "dev")) == (ROWS, ROWS * 2)
    with pytest.raises(UserError, match="404"):
        connect(hub).upload(parse_address("us/mine@absent"), out / "train.jsonl", UploadOptions())


def test_rows_that_are_none_are_not_uploaded(hub: Hub, out: Path) -> None:
    (out / "train.jsonl").write_bytes(ROWS + b'{"input": 1}\n{broken\n')
    with pytest.raises(ConfigError) as caught:
        connect(hub).upload(parse_address("us/mine"), out / "train.jsonl", UploadOptions())
    assert f"{out}/train.jsonl:501: responses_create_params: is missing" in str(caught.value)
    assert "2 of 502 lines" in caught.value.hint
    assert hub.repos == {}


def test_an_upload_without_a_token_names_the_key(hub: Hub, out: Path) -> None:
    (out / "train.jsonl").write_bytes(ROWS)
    with pytest.raises(UserError, match="`hf_token` is not set"):
        connect(hub, token="").upload(parse_address("us/mine"), out / "train.jsonl", UploadOptions())


def test_a_file_and_a_data_set_can_be_removed(hub: Hub) -> None:
    hub.add("us/mine", {"train.jsonl": ROWS, "old.jsonl": ROWS})
    registry, address = connect(hub), parse_address("us/mine")
    assert registry.remove(address, "old.jsonl") == "old.jsonl of hf:us/mine"
    assert [one.name for one in registry.entries(address)] == ["train.jsonl"]
    with pytest.raises(UserError, match="404"):
        registry.remove(address, "old.jsonl")
    registry.remove(address)
    assert hub.repos == {}
    with pytest.raises(UserError, match="404"):
        registry.remove(address)


def test_a_hub_that_does_not_answer_is_reported(hub: Hub, out: Path, unused_port: int) -> None:
    hub.port = unused_port
    with pytest.raises(GymError, match="cannot be reached"):
        connect(hub).download(WORK, out / "t.jsonl", file="train.jsonl")


def test_without_the_package_the_command_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(UserError, match="huggingface_hub") as caught:
        HubRegistry(read_access({}, {}))
    assert caught.value.hint == install_command("huggingface_hub")


@pytest.mark.parametrize(
    ("has", "gets"),
    [("rows.jsonl.gz", "train.jsonl"), ("rows.parquet", "train.jsonl"), ("rows.jsonl", "train.jsonl.zst")],
)
def test_a_file_gets_no_name_there_that_says_another_kind(hub: Hub, out: Path, has: str, gets: str) -> None:
    (out / has).write_bytes(ROWS)
    with pytest.raises(UserError, match="which says another kind of file"):
        connect(hub).upload(parse_address("us/mine"), out / has, UploadOptions(gets))
    assert "us/mine" not in hub.repos


def test_rows_are_checked_also_where_only_the_name_there_says_that_they_are_rows(hub: Hub, out: Path) -> None:
    (out / "rows.json").write_text("not a row\n")
    with pytest.raises(ConfigError, match="1 of 1 lines are not rows"):
        connect(hub).upload(parse_address("us/mine"), out / "rows.json", UploadOptions("train.jsonl"))


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ("rows.jsonl", "train.jsonl"),
        ("rows.json", "train.jsonl"),
        ("rows.jsonl.gz", "train.jsonl.gz"),
        ("rows.jsonl.zstd", "train.jsonl.zst"),
        ("rows.parquet", "train.parquet"),
    ],
)
def test_a_splits_name_says_how_it_is_packed(source: str, name: str) -> None:
    assert name_of_split("train", Path(source)) == name

"""Data sets in the model registry of MLflow and of GitLab: the same requests, two servers that differ a little."""

from __future__ import annotations

from pathlib import Path

import pytest

from gym.data.registries import RegistryAddress, UploadOptions, parse_address, read_access
from gym.data.registries.mlflow import ModelRegistry
from gym.data.registries.transfer import Retries, part_of
from gym.errors import ConfigError, GymError, InfraError, UserError
from tests.support.mlflow_registry import TOKEN, Registry, registry_server

ROWS = b"".join(b'{"responses_create_params": {"input": []}, "id": %d}\n' % number for number in range(500))
FIRST = RegistryAddress("gitlab", "mcqa", "0.0.1")


def connect(registry: Registry, *, token: str = "", waits: tuple[float, ...] = (0, 0)) -> ModelRegistry:
    settings = {"mlflow_tracking_uri": registry.url, "mlflow_tracking_token": token}
    return ModelRegistry(read_access(settings, {}), Retries(waits=waits))


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    (tmp_path / "in").mkdir()
    path = tmp_path / "in" / "train.jsonl"
    path.write_bytes(ROWS)
    return path


@pytest.fixture
def out(tmp_path: Path) -> Path:
    (tmp_path / "out").mkdir()
    return tmp_path / "out"


def test_what_was_uploaded_comes_back_checked(registry: Registry, rows: Path, out: Path) -> None:
    stored = connect(registry).upload(FIRST, rows, UploadOptions())
    assert (stored.replaced, stored.notes) == ("", ("made gitlab:mcqa:0.0.1",))
    got = connect(registry).download(FIRST, out / "t.jsonl", file="train.jsonl")
    assert (got.path.read_bytes(), got.verified) == (ROWS, "sha256")
    assert connect(registry).download(FIRST, out / "u.jsonl", split="train").path.read_bytes() == ROWS
    assert sorted(path.name for path in out.iterdir()) == ["t.jsonl", "u.jsonl"]


def test_a_second_upload_names_what_it_replaced(registry: Registry, rows: Path, out: Path) -> None:
    old = connect(registry).upload(FIRST, rows, UploadOptions()).sha256
    assert connect(registry).upload(FIRST, rows, UploadOptions()).replaced == ""
    rows.write_bytes(ROWS * 2)
    assert connect(registry).upload(FIRST, rows, UploadOptions()).replaced == f"{len(ROWS):,} bytes (sha256 {old[:12]})"
    got = connect(registry).download(FIRST, out / "t.jsonl", file="train.jsonl")
    assert got.path.read_bytes() == ROWS * 2


def test_listings_go_from_data_sets_to_versions_to_files(registry: Registry, rows: Path) -> None:
    client = connect(registry)
    for name in ("gitlab:mcqa:0.0.1", "gitlab:mcqa:0.0.2", "gitlab:other:1.0.0"):
        client.upload(parse_address(name), rows, UploadOptions())
    assert [one.name for one in client.entries(parse_address("gitlab:"))] == ["gitlab:mcqa", "gitlab:other"]
    newest = [one.name for one in client.entries(parse_address("gitlab:mcqa"))]
    assert newest == (["0.0.2"] if registry.gitlab else ["0.0.2", "0.0.1"])
    (file,) = client.entries(FIRST)
    assert (file.name, file.size, len(file.digest)) == ("train.jsonl", len(ROWS), 64)


@pytest.mark.parametrize("ranges", [True, False])
def test_a_download_that_was_cut_off_is_whole_in_the_end(
    registry: Registry, rows: Path, out: Path, ranges: bool
) -> None:
    connect(registry).upload(FIRST, rows, UploadOptions())
    registry.ranges = ranges
    registry.faults.cut_off("train.jsonl", after=5000)
    connect(registry).download(FIRST, out / "t.jsonl", file="train.jsonl")
    assert (out / "t.jsonl").read_bytes() == ROWS
    assert registry.faults.ranges("train.jsonl") == ["", "bytes=5000-"]


def test_the_next_command_goes_on_where_the_last_one_ended(registry: Registry, rows: Path, out: Path) -> None:
    connect(registry).upload(FIRST, rows, UploadOptions())
    registry.faults.cut_off("train.jsonl", after=5000)
    registry.faults.answer("train.jsonl", 503)
    with pytest.raises(InfraError, match=r"could not be fetched"):
        connect(registry, waits=()).download(FIRST, out / "t.jsonl", file="train.jsonl")
    connect(registry).download(FIRST, out / "t.jsonl", file="train.jsonl")
    assert (out / "t.jsonl").read_bytes() == ROWS
    assert registry.faults.ranges("train.jsonl")[-1] == "bytes=5000-"


def test_bytes_that_are_not_what_was_uploaded_are_refused(registry: Registry, rows: Path, out: Path) -> None:
    connect(registry).upload(FIRST, rows, UploadOptions())
    registry.faults.spoil("train.jsonl")
    with pytest.raises(InfraError, match="checksum"):
        connect(registry).download(FIRST, out / "t.jsonl", file="train.jsonl")
    assert list(out.iterdir()) == []


def test_what_others_uploaded_is_checked_by_its_size(registry: Registry, rows: Path, out: Path) -> None:
    connect(registry).upload(FIRST, rows, UploadOptions())
    for tags in registry.runs.values():
        tags.clear()
    assert connect(registry).download(FIRST, out / "t.jsonl", file="train.jsonl").verified == "size"


def test_a_server_that_lists_no_files_still_keeps_them(registry: Registry, rows: Path, out: Path) -> None:
    registry.lists_files = False
    client = connect(registry)
    old = client.upload(FIRST, rows, UploadOptions()).sha256
    rows.write_bytes(ROWS * 2)
    assert client.upload(FIRST, rows, UploadOptions()).replaced == f"a file with sha256 {old[:12]}"
    registry.faults.cut_off("train.jsonl", after=5000)
    assert client.download(FIRST, out / "t.jsonl", file="train.jsonl").verified == "sha256"
    for ask in (lambda: client.entries(FIRST), lambda: client.download(FIRST, out / "u.jsonl", split="train")):
        with pytest.raises(UserError, match="lists no"):
            ask()
    client.remove(FIRST, "train.jsonl")
    assert registry.files == {}


def test_a_part_that_nothing_follows_is_begun_again(registry: Registry, rows: Path, out: Path) -> None:
    client = connect(registry)
    client.upload(FIRST, rows, UploadOptions())
    registry.lists_files = False
    part_of(client.remote(FIRST, "train.jsonl"), out / "t.jsonl").write_bytes(b"x" * len(ROWS))
    client.download(FIRST, out / "t.jsonl", file="train.jsonl")
    assert (out / "t.jsonl").read_bytes() == ROWS
    assert registry.faults.ranges("train.jsonl") == [f"bytes={len(ROWS)}-", ""]


def test_what_is_not_there_is_reported(registry: Registry, rows: Path, out: Path) -> None:
    client = connect(registry)
    client.upload(FIRST, rows, UploadOptions())
    for address, file in ((FIRST, "absent.jsonl"), (RegistryAddress("gitlab", "mcqa", "9.9.9"), "train.jsonl")):
        with pytest.raises(UserError, match="404"):
            client.download(address, out / "t.jsonl", file=file)
    with pytest.raises(UserError, match="404"):
        client.download(RegistryAddress("gitlab", "absent", "0.0.1"), out / "t.jsonl", file="train.jsonl")
    with pytest.raises(UserError, match="no configurations"):
        client.download(FIRST, out / "t.jsonl", split="train", config="main")
    with pytest.raises(UserError, match="which version"):
        client.download(RegistryAddress("gitlab", "mcqa"), out / "t.jsonl", file="train.jsonl")
    assert list(out.iterdir()) == []


def test_a_file_a_version_and_a_data_set_can_be_removed(registry: Registry, rows: Path) -> None:
    client = connect(registry)
    client.upload(FIRST, rows, UploadOptions())
    client.upload(FIRST, rows, UploadOptions(file_name="more.jsonl"))
    assert client.remove(FIRST, "more.jsonl") == "more.jsonl of gitlab:mcqa:0.0.1"
    assert [one.name for one in client.entries(FIRST)] == ["train.jsonl"]
    if registry.gitlab:
        with pytest.raises(GymError, match="404"):
            client.remove(FIRST)
    else:
        client.remove(FIRST)
        assert client.entries(parse_address("gitlab:mcqa")) == ()
    assert client.remove(parse_address("gitlab:mcqa")) == "gitlab:mcqa and all its versions"
    assert registry.models == {}


def test_uploads_that_a_registry_has_no_place_for_are_refused(registry: Registry, rows: Path) -> None:
    with pytest.raises(UserError, match="three numbers"):
        connect(registry).upload(RegistryAddress("gitlab", "mcqa", "1"), rows, UploadOptions())
    with pytest.raises(UserError, match="no pull requests"):
        connect(registry).upload(FIRST, rows, UploadOptions(pull_request=True))
    rows.write_bytes(b"{}\n")
    with pytest.raises(ConfigError, match="responses_create_params"):
        connect(registry).upload(FIRST, rows, UploadOptions())
    assert registry.models == {}


def test_credentials_that_are_missing_or_wrong_are_named_and_never_shown(rows: Path) -> None:
    with registry_server(gitlab=True, token=TOKEN) as registry:
        with pytest.raises(UserError, match="`mlflow_tracking_token` is not set") as caught:
            connect(registry).upload(FIRST, rows, UploadOptions())
        assert "env.yaml" in caught.value.hint
        with pytest.raises(UserError, match="does not accept the token") as caught:
            connect(registry, token="glpat-wrong0123456789").upload(FIRST, rows, UploadOptions())
        assert "glpat-wrong" not in str(caught.value)
        assert connect(registry, token=TOKEN).upload(FIRST, rows, UploadOptions()).size == len(ROWS)
    with pytest.raises(UserError, match="`mlflow_tracking_uri` is not set"):
        ModelRegistry(read_access({}, {}))


def test_the_token_stays_with_the_registry(rows: Path, out: Path) -> None:
    with registry_server(token=TOKEN) as registry, registry_server() as store:
        connect(registry, token=TOKEN).upload(FIRST, rows, UploadOptions())
        place = next(iter(registry.files))
        store.files[place] = ROWS
        where = f"{store.url}/api/2.0/mlflow-artifacts/artifacts/0/{place}"
        registry.faults.answer("mlflow-artifacts", 302, Location=where)
        connect(registry, token=TOKEN).download(FIRST, out / "t.jsonl", file="train.jsonl")
        assert [one.authorized for one in store.faults.seen] == [False]


def test_a_registry_that_does_not_answer_is_reported(unused_port: int) -> None:
    access = read_access({"mlflow_tracking_uri": f"http://127.0.0.1:{unused_port}"}, {})
    with pytest.raises(InfraError, match="cannot be reached"):
        ModelRegistry(access).entries(parse_address("gitlab:"))

"""Logs of other tools as runs: real ones that their packages wrote, and what those might have left half written."""

from __future__ import annotations

import importlib
import shutil
import zipfile
from pathlib import Path
from typing import Any

import orjson
import pytest

from gym.console.viewer import inspect_logs
from gym.console.viewer.foreign_logs import convert, find_reader
from gym.console.viewer.query import Query, read_query
from gym.console.viewer.rollout_files import RolloutFiles
from gym.console.viewer.run_files import RunFiles
from gym.errors import UserError
from tests.support.rollout_files import rollout, write_lines

LOGS = Path(__file__).parents[2] / "support" / "foreign_logs"


def opened(*paths: Path, cache: Path) -> RolloutFiles:
    files = RolloutFiles(RunFiles(paths, environ={"XDG_CACHE_HOME": str(cache)}))
    files.refresh(whole=True)
    return files


def views(files: RolloutFiles) -> list[dict[str, Any]]:
    return [files.view(place) for place in files.find(Query()).places]


def test_an_archive_of_inspect_is_read_as_rollouts(tmp_path: Path) -> None:
    found = views(opened(LOGS / "sums.eval", cache=tmp_path))
    rows = [(one["id"], one["task"], one["repeat"], one["reward"], one["tools"], one["agent"]) for one in found]
    assert sorted(rows) == [
        ("sums:1", 0, 0, 1.0, ("add",), "sums"),
        ("sums:2", 1, 0, 0.0, ("add",), "sums"),
        ("sums:3", 0, 1, 0.0, ("add",), "sums"),
        ("sums:4", 1, 1, 0.0, ("add",), "sums"),
    ]
    assert found[0]["title"] == "What is 1 + 0?"
    assert found[0]["components"]["scores.style"] == 0.5
    assert found[0]["tokens"] > 0
    assert found[0]["began"] > 1.7e9


def test_a_log_of_inspect_in_json_is_the_same_rollouts(tmp_path: Path) -> None:
    write_json_log(tmp_path / "sums.json")
    files, archive = opened(tmp_path / "sums.json", cache=tmp_path), opened(LOGS / "sums.eval", cache=tmp_path)
    assert [files.line(place) for place in files.find(Query()).places] == [
        archive.line(place) for place in archive.find(Query()).places
    ]


def write_json_log(path: Path, **changes: Any) -> None:
    """As `log_format="json"` writes it: the header, and the samples in one list."""
    with unpacked() as archive:
        header = orjson.loads(archive.read("header.json"))
        names = [name for name in archive.namelist() if name.startswith("samples/")]
        samples = [orjson.loads(archive.read(name)) | changes for name in names]
    log = {"version": 2, "status": "success"} | header | {"samples": samples}
    path.write_bytes(orjson.dumps(log, option=orjson.OPT_INDENT_2))


def unpacked() -> zipfile.ZipFile:
    try:
        module = importlib.import_module("backports.zstd.zipfile")
    except ImportError:
        module = zipfile
    found: zipfile.ZipFile = module.ZipFile(LOGS / "sums.eval")
    return found


def test_a_sample_that_failed_is_a_failure_and_no_reward(tmp_path: Path) -> None:
    write_json_log(tmp_path / "x.json", error={"message": "the sandbox is gone"}, scores={})
    files = opened(tmp_path / "x.json", cache=tmp_path)
    assert (files.summary()["count"], files.summary()["kinds"]) == (0, {"error": 4})
    assert views(files)[0]["reward"] is None


def test_a_time_without_a_zone_is_taken_as_utc(tmp_path: Path) -> None:
    began = []
    for text in ("2026-01-01T12:00:00", "2026-01-01T14:00:00+02:00", "2026-01-01T12:00:00+00:00", "noon"):
        write_json_log(tmp_path / "x.json", started_at=text)
        began.append(views(opened(tmp_path / "x.json", cache=tmp_path))[0]["began"])
    assert began == [1767268800.0, 1767268800.0, 1767268800.0, None]


def test_results_of_verifiers_are_read_as_rollouts(tmp_path: Path) -> None:
    files = opened(LOGS, cache=tmp_path)
    assert files.runs.runs.keys() == {"results", "sums", "traces"}
    found = files.find(read_query({"run": "results"})).places
    shown = [files.view(place) for place in found]
    assert [(one["task"], one["repeat"], one["reward"]) for one in shown] == [
        (0, 0, 1.0),
        (0, 1, 0.0),
        (1, 0, 0.0),
        (1, 1, 1.0),
    ]
    assert shown[0]["tools"] == ("add",)
    assert shown[0]["title"] == "What is 1 + 2?"
    assert (shown[0]["components"]["length"], shown[0]["tokens"]) == (3.0, 24)
    row = orjson.loads(files.line(found[0]))
    assert [item["type"] for item in row["response"]["output"]] == ["function_call", "function_call_output", "message"]
    assert orjson.loads(row["response"]["output"][0]["arguments"]) == {"x": 1, "y": 2}
    assert row["responses_create_params"]["tools"][0]["name"] == "add"
    assert row["answer"] == "sum is 3"


def test_traces_of_verifiers_are_read_as_rollouts(tmp_path: Path) -> None:
    files = opened(LOGS / "traces.jsonl", cache=tmp_path)
    found = files.find(Query()).places
    shown = [files.view(place) for place in found]
    assert [(one["task"], one["repeat"], one["reward"], one["kind"]) for one in shown] == [
        (0, 0, 1.0, ""),
        (0, 1, 0.0, ""),
        (1, 0, 0.0, ""),
        (1, 1, None, "ProviderError"),
    ]
    assert {one["agent"] for one in shown} == {"letters_and_sums"}
    assert (shown[0]["tools"], shown[0]["tokens"]) == (("bash",), 24)
    assert shown[0]["title"].startswith("Spell 'jacketkitten' backward.")
    assert (shown[0]["components"]["boxed"], shown[0]["components"]["scores.correct"]) == (1.0, 1.0)
    assert shown[0]["began"] > 1.7e9
    row = orjson.loads(files.line(found[0]))
    kinds = [item["type"] for item in row["response"]["output"]]
    assert kinds == ["message", "function_call", "function_call_output", "message"]
    assert row["answer"] == "nettiktekcaj"
    assert b"base_url" not in files.line(found[0])


def test_an_episode_of_many_agents_or_of_none_is_read_too(tmp_path: Path) -> None:
    episode = orjson.loads((LOGS / "traces.jsonl").read_bytes().splitlines()[0])
    [trace] = episode["traces"]
    other = {**trace, "agent": {**trace["agent"], "name": "judge"}}
    early = {**episode, "traces": [], "errors": [{"type": "EnvError", "message": "no box"}]}
    looped = {**trace, "nodes": [{**one, "parent": 4} for one in trace["nodes"]], "rewards": {"correct": None}}
    lines = [{**episode, "traces": [trace, other]}, early, {**episode, "traces": [looped]}]
    path = write_lines(tmp_path / "traces.jsonl", [*lines, b"{torn\n"])
    shown = views(opened(path, cache=tmp_path / "cache"))
    assert [(one["agent"], one["repeat"], one["reward"], one["kind"]) for one in shown] == [
        ("letters_and_sums", 0, 1.0, ""),
        ("letters_and_sums.judge", 0, 1.0, ""),
        ("letters_and_sums", 1, None, "EnvError"),
        ("letters_and_sums", 2, None, ""),
    ]


def test_results_that_grow_are_read_again_and_a_torn_line_stays_out(tmp_path: Path) -> None:
    lines = (LOGS / "results.jsonl").read_bytes().splitlines(keepends=True)
    path = tmp_path / "results.jsonl"
    path.write_bytes(lines[0])
    files = opened(path, cache=tmp_path / "cache")
    assert files.summary()["count"] == 1
    path.write_bytes(b"".join(lines[:3]) + lines[3][:50])
    files.refresh(whole=True)
    assert files.summary()["count"] == 3
    assert len(list((tmp_path / "cache").rglob("*.jsonl"))) == 1
    assert sorted(one.name for one in tmp_path.iterdir()) == ["cache", "results.jsonl"]


def test_rollouts_of_nemo_gym_are_read_as_they_are(tmp_path: Path) -> None:
    """Its rows carry no stamp of ours, and a failure of the agent stands by its class."""
    row = {key: value for key, value in rollout(4, 1, 0.5).items() if key != "_gym"}
    failed = {**row, "_ng_failure_class": "judge_failed", "reward": 0.0, "_ng_task_index": 5}
    path = write_lines(tmp_path / "rollouts.jsonl", [row | {"library_score": 0.25}, failed])
    files = opened(path, cache=tmp_path)
    first, second = views(files)
    assert (first["task"], first["repeat"], first["reward"], first["agent"]) == (4, 1, 0.5, "solver")
    assert first["components"] == {"library_score": 0.25}
    assert (second["kind"], second["task"]) == ("judge_failed", 5)
    assert files.summary()["count"] == 1


@pytest.mark.parametrize("left", [0, 10, 5000, -1, -30])
def test_an_archive_that_was_cut_off_is_named_and_hides_no_other(left: int, tmp_path: Path) -> None:
    folder = tmp_path / "results"
    folder.mkdir()
    (folder / "torn.eval").write_bytes((LOGS / "sums.eval").read_bytes()[:left])
    write_lines(folder / "x.jsonl", [rollout()])
    files = opened(folder, cache=tmp_path / "cache")
    assert files.summary()["count"] == 1


@pytest.mark.parametrize("samples", [5, [5], [{"messages": [None], "scores": {"a": 3}}], [{"scores": []}], {"a": 1}])
def test_a_log_of_another_shape_is_named_or_read_as_far_as_it_goes(samples: Any, tmp_path: Path) -> None:
    folder = tmp_path / "results"
    folder.mkdir()
    log = {"version": 2, "status": "success", "eval": {"task": "t"}, "samples": samples}
    (folder / "odd.json").write_bytes(orjson.dumps(log))
    write_lines(folder / "x.jsonl", [rollout()])
    summary = opened(folder, cache=tmp_path / "cache").summary()
    assert summary["count"] >= 1
    assert len(summary["runs"]) == 2 or any("odd.json cannot be read" in one for one in summary["notices"])


def test_other_json_in_a_folder_is_not_a_run(tmp_path: Path) -> None:
    (tmp_path / "x_run.json").write_text('{"identity": {}}')
    (tmp_path / "x_aggregate_metrics.json").write_text("[]")
    shutil.copy(LOGS / "metadata.json", tmp_path)
    (tmp_path / "notes.eval").write_text("no archive")
    assert opened(tmp_path, cache=tmp_path / "cache").runs.runs == {}
    assert find_reader(tmp_path / "absent.jsonl") is None


@pytest.mark.parametrize("bomb", ["header.json", "samples/1_epoch_1.json", "many samples"])
def test_an_archive_that_unpacks_beyond_all_measure_is_refused_before_it_is_unpacked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bomb: str
) -> None:
    monkeypatch.setattr(inspect_logs, "_MAX_HEAD", 1 << 20)
    monkeypatch.setattr(inspect_logs, "_MAX_SAMPLE", 2 << 20)
    monkeypatch.setattr(inspect_logs, "_MAX_ALL", 4 << 20)
    names = [f"samples/{number}.json" for number in range(20)] if bomb == "many samples" else [bomb]
    with zipfile.ZipFile(tmp_path / "x.eval", "w", zipfile.ZIP_DEFLATED) as archive:
        for name in names:
            archive.writestr(name, b" " * (2_000_000 if len(names) > 1 else 3_000_000))
    with pytest.raises(UserError, match="unpack"):
        converted(tmp_path / "x.eval")
    assert not list(tmp_path.rglob("rollouts.jsonl"))


def converted(path: Path) -> Path:
    reader = find_reader(path)
    assert reader is not None
    return convert(path, reader, {"XDG_CACHE_HOME": str(path.parent)})


def test_an_archive_that_says_less_than_it_unpacks_to_is_read_no_further(tmp_path: Path) -> None:
    path = tmp_path / "x.eval"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("samples/1.json", b" " * 5_000_000 + b"{}")
    path.write_bytes(path.read_bytes().replace((5_000_002).to_bytes(4, "little"), (2).to_bytes(4, "little")))
    with pytest.raises(UserError, match="CRC"):
        converted(path)


def test_names_of_an_archive_that_lead_elsewhere_write_nothing(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "x.eval", "w") as archive:
        archive.writestr("samples/../../../outside.json", b"{}")
        archive.writestr("/samples/outside.json", b"{}")
    opened(tmp_path / "x.eval", cache=tmp_path / "cache")
    assert not [path for path in tmp_path.rglob("*") if "outside" in path.name]

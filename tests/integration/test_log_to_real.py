"""`gym rollouts --log-to` with the packages as they are published, offline, read back by their own readers; resumed."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from gym.pytest_plugin import StackStarts
from tests.support.cli import environment

pytestmark = pytest.mark.long
SECONDS = 1800.0
ROOT = Path(__file__).resolve().parents[2]
OFFLINE = {"WANDB_MODE": "offline", "WANDB_SILENT": "true", "MLFLOW_DISABLE_TELEMETRY": "true", "DO_NOT_TRACK": "true"}
READ_TENSORBOARD = """
import json, sys
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
events = EventAccumulator(sys.argv[1], size_guidance={"scalars": 0, "tensors": 0}).Reload()
points = [(one.step, one.value) for one in events.Scalars("reward/mean")]
texts = [text.decode() for text in events.Tensors("samples")[-1].tensor_proto.string_val]
print(json.dumps({"points": points, "texts": texts, "runs": 1}))
"""
READ_MLFLOW = """
import json
from mlflow import MlflowClient
from mlflow.artifacts import load_text
client = MlflowClient()
runs = client.search_runs([client.get_experiment_by_name("compose-gym").experiment_id])
points = [(one.step, one.value) for one in client.get_metric_history(runs[0].info.run_id, "reward/mean")]
texts = load_text(runs[0].info.artifact_uri + "/rollouts/samples.jsonl").splitlines()
assert runs[0].info.status == "FINISHED" and runs[0].data.params["repeats"] == "2", runs[0]
print(json.dumps({"points": points, "texts": texts, "runs": len(runs)}))
"""
# An offline run: 7 bytes, then the log format of LevelDB, in blocks of 32 KiB; 7 bytes before each piece.
READ_WANDB = """
import json
from pathlib import Path
from wandb.proto import wandb_internal_pb2
def records(data):
    at, held = 7, b""
    while at + 7 <= len(data):
        if 32768 - at % 32768 < 7:
            at += 32768 - at % 32768
            continue
        size, kind = int.from_bytes(data[at + 4 : at + 6], "little"), data[at + 6]
        held, at = held + data[at + 7 : at + 7 + size], at + 7 + size
        if kind in (1, 4):
            record = wandb_internal_pb2.Record()
            record.ParseFromString(held)
            yield record
        held = b"" if kind in (1, 4) else held
ids, points, texts = set(), [], []
for path in sorted(Path("wandb").glob("offline-run-*/*.wandb")):
    for record in records(path.read_bytes()):
        if record.run.run_id:
            ids.add(record.run.run_id)
        found = {one.key or "/".join(one.nested_key): one.value_json for one in record.history.item}
        if "reward/mean" in found:
            points.append((json.loads(found["rollouts"]), json.loads(found["reward/mean"])))
for table in Path("wandb").glob("offline-run-*/files/media/table/*.json"):
    texts += [str(row) for row in json.loads(table.read_text())["data"]]
print(json.dumps({"points": points, "texts": texts, "runs": len(ids)}))
"""
READERS = {"tensorboard": READ_TENSORBOARD, "mlflow": READ_MLFLOW, "wandb": READ_WANDB}


@dataclass
class Made:
    folder: Path
    python: Path

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        usual = {"cwd": self.folder, "env": environment(OFFLINE), "capture_output": True, "text": True}
        return subprocess.run([str(self.python), *words], check=False, timeout=SECONDS, **usual)  # type: ignore[call-overload, no-any-return]


@pytest.fixture(scope="module")
def stack(gym_stack: StackStarts) -> Path:
    return gym_stack("mcqa", runtime="local").folder


@pytest.mark.parametrize("tracker", READERS)
def test_the_real_package_keeps_metrics_and_samples_and_a_resume_is_the_same_run(
    tracker: str, stack: Path, tmp_path: Path
) -> None:
    uv, made = str(Path(sys.executable).with_name("uv")), Made(stack, tmp_path / "env" / "bin" / "python")
    subprocess.run([uv, "venv", "--quiet", "--python", sys.executable, str(tmp_path / "env")], check=True)
    what = ("--editable", f"{ROOT}[cli,{tracker}]")
    subprocess.run([uv, "pip", "install", "--quiet", "--python", str(made.python), *what], check=True, timeout=SECONDS)
    output = f"{tracker}.jsonl"
    words = ("-m", "gym", "rollouts", "mcqa", "-o", output, "--repeats", "2", "--log-to", tracker)
    first = made.run(*words)
    assert first.returncode == 0, first.stderr
    assert "--log-to" not in first.stderr
    lines = (stack / output).read_bytes().splitlines(keepends=True)
    (stack / output).write_bytes(b"".join(lines[:3]))  # as after a kill
    again = made.run(*words)
    assert again.returncode == 0, again.stderr
    assert "--log-to" not in again.stderr
    where = str(stack / f"{tracker}.tensorboard")
    read = made.run("-c", READERS[tracker], where)
    assert read.returncode == 0, read.stderr
    found = json.loads(read.stdout.splitlines()[-1])
    assert found["runs"] == 1
    assert found["points"][-1][0] == len(lines)
    rewards = [json.loads(line)["reward"] for line in lines]
    assert found["points"][-1][1] == pytest.approx(sum(rewards) / len(rewards))
    assert len(found["texts"]) >= min(len(lines), 20)

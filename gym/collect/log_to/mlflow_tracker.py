"""MLflow, by its own client: MLFLOW_TRACKING_URI and MLFLOW_EXPERIMENT_NAME say where; a run that ended is reopened."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Mapping, Sequence

import orjson
from mlflow import MlflowClient
from mlflow.entities import Metric, Param
from mlflow.exceptions import MlflowException

from gym.collect.log_to.trackers import PROJECT, RunFacts, SampleRollout

_ODD = re.compile(r"[^\w\-. /]")
BATCH = 1000  # metrics in one request, says MLflow


class MlflowTracker:
    def __init__(self, facts: RunFacts) -> None:
        self._client = MlflowClient()
        self.key = self._reopen(facts.key) or self._begin(facts)

    def log(self, step: int, values: Mapping[str, float]) -> None:
        now = int(time.time() * 1000)
        metrics = [Metric(_ODD.sub("_", name)[:250], value, now, step) for name, value in values.items()]
        for at in range(0, len(metrics), BATCH):
            self._client.log_batch(self.key, metrics=metrics[at : at + BATCH])

    def log_samples(self, step: int, samples: Sequence[SampleRollout]) -> None:
        text = b"".join(orjson.dumps(one._asdict()) + b"\n" for one in samples).decode()
        self._client.log_text(self.key, text, "rollouts/samples.jsonl")

    def close(self, *, failed: bool) -> None:
        self._client.set_terminated(self.key, "FAILED" if failed else "FINISHED")

    def _reopen(self, key: str) -> str:
        """ "" where there is no such run any more: its store is another, or it was deleted."""
        if not key:
            return ""
        try:
            self._client.update_run(key, status="RUNNING")
        except MlflowException:
            return ""
        return key

    def _begin(self, facts: RunFacts) -> str:
        name = os.environ.get("MLFLOW_EXPERIMENT_NAME") or PROJECT
        found = self._client.get_experiment_by_name(name)
        experiment = found.experiment_id if found else self._client.create_experiment(name)
        run: str = self._client.create_run(experiment, run_name=facts.name).info.run_id
        params = [Param(_ODD.sub("_", name), str(value)[:500]) for name, value in facts.config.items()]
        self._client.log_batch(run, params=params)
        return run


def open_tracker(facts: RunFacts) -> MlflowTracker:
    return MlflowTracker(facts)

"""A trainer that has its own Ray job: a task of it starts a stack on the same cluster, and an actor collects from it.

`python ray_trainer.py GYM FOLDER` prints what it saw as JSON.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import ray

from gym.client import AsyncStack
from gym.runtime.ray_cluster.ray_runtime import RayRuntime


@ray.remote(num_cpus=1)  # type: ignore[untyped-decorator]
def start_stack(gym: str, folder: str) -> str:
    """By the command, which is a process of its own: its environment names the cluster of this task."""
    env = {**os.environ, "RAY_ADDRESS": ray.get_runtime_context().gcs_address}
    up = ("up", "mcqa", "--model", "scripted", "--on", "ray", "--port", "0", "--timeout", "900")
    subprocess.run([gym, *up], cwd=folder, env=env, check=True, stdout=sys.stderr)
    shown = subprocess.run([gym, "ps", "--json"], cwd=folder, env=env, check=True, stdout=subprocess.PIPE)
    return str(json.loads(shown.stdout)["router"])


@ray.remote(num_cpus=1)
class Collector:
    async def collect(self, router: str, rows: list[dict[str, Any]]) -> list[float]:
        async with AsyncStack.connect(router) as stack:
            return [one.reward or 0.0 async for one in stack.rollouts(rows, agent="mcqa_simple_agent")]


def main(gym: str, folder: Path) -> None:
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=True, _temp_dir=os.environ["TRAINER_TEMP"])
    rows = [json.loads(line) for line in (folder / "rows.jsonl").read_text().splitlines()]
    router = ray.get(start_stack.remote(gym, str(folder)))
    collector: Any = Collector
    rewards = ray.get(collector.remote().collect.remote(router, rows))
    home = folder / ".gym" / "gym"
    status = RayRuntime().status(home)  # in the connection that the trainer has
    assert status is not None
    seen = {"rewards": rewards, "states": sorted({one.state for one in status.replicas})}
    RayRuntime().down(home)
    left = [one["name"] for one in ray.util.list_named_actors(all_namespaces=True)]
    sys.stdout.write(json.dumps({**seen, "left": left}))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))

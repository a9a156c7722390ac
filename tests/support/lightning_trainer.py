"""What Agent Lightning's own trainer does with its server, by its own manager: rows in, finished rollouts out, as JSON.

python tests/support/lightning_trainer.py job.json rollouts.json   # a Python that has agentlightning and numpy
"""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path
from typing import Any


def main(job: dict[str, Any]) -> list[Any]:
    module = importlib.import_module("agentlightning.verl.agl_rollout_manager")
    manager = module.AglRolloutManager(
        agl_base_url=job["server"],
        agl_key=job["key"],
        model=job["model"],
        step=1,
        train_rollout_n=job["size"],
        rollout_timeout_seconds=300,
        poll_interval_seconds=0.5,
        local_agent_class="gym.trainers.agent_lightning:GymAgent",
        local_env_map={"GYM_URL": "input.stack"},
    )
    manager.register_model([job["endpoint"]])
    columns = {name: [row[name] for row in job["rows"]] for name in job["rows"][0]}
    done = manager.enqueue_and_wait_until_completed(columns, is_train=True)
    return [one.model_dump(mode="json") for one in done]


if __name__ == "__main__":
    Path(sys.argv[2]).write_text(json.dumps(main(json.loads(Path(sys.argv[1]).read_text()))))

"""What NeMo RL and verl's recipe do with `nemo_gym`, in a process that has the wheel: a line of JSON in, lines out.

Run by the tests with the Python of another environment; nothing here is imported by them.
"""

from __future__ import annotations

import asyncio
import json
import pickle
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from nemo_gym.cli import GlobalConfigDictParserConfig, RunHelper
from nemo_gym.rollout_collection import RolloutCollectionHelper
from nemo_gym.server_utils import HEAD_SERVER_KEY_NAME, BaseServerConfig

HEAD_PORT = 5000  # nothing listens there: trainers make one up for a head server that they expect to be started


class Trainer:
    def __init__(self) -> None:
        self.helper = RunHelper()

    def start(self, config: dict[str, Any]) -> None:
        config.setdefault(HEAD_SERVER_KEY_NAME, {"host": "0.0.0.0", "port": HEAD_PORT})
        self.helper.start(
            global_config_dict_parser_config=GlobalConfigDictParserConfig(
                dotenv_path=Path("nemo_gym_env.yaml"), initial_global_config_dict=config, skip_load_from_cli=True
            )
        )

    def poll(self) -> None:
        self.helper.poll()

    def shutdown(self) -> None:
        self.helper.shutdown()

    def run(self, rows: list[dict[str, Any]], only: int = 0, port: int = HEAD_PORT) -> None:
        """All, or the first `only` of them: then the rest is let go, as by a trainer that has met an error."""
        asyncio.run(self._run(rows, only or len(rows), BaseServerConfig(host="127.0.0.1", port=port)))

    async def _run(self, rows: list[dict[str, Any]], only: int, head: BaseServerConfig) -> None:
        found = RolloutCollectionHelper().run_examples(examples=rows, head_server_config=head)
        for count, task in enumerate(found, start=1):
            try:
                row, result = await task
            except Exception as error:  # noqa: BLE001 (the test looks at it)
                say(failed=describe(error))
            else:
                say(row=row["_rowidx"], result=result)
            if count == only:
                break
        if only < len(rows):
            del found, task
            say(left=True)
            await asyncio.to_thread(sys.stdin.readline)  # the loop goes on until the test has seen enough


def describe(error: Exception) -> dict[str, Any]:
    again = pickle.loads(pickle.dumps(error))
    same = (str(again), vars(again)) == (str(error), vars(error))
    status, kind = getattr(error, "status", None), getattr(error, "kind", "")
    return {"type": type(error).__name__, "text": str(error), "status": status, "kind": kind, "survives_pickle": same}


def say(**facts: Any) -> None:
    sys.stdout.write(json.dumps(facts) + "\n")
    sys.stdout.flush()


def main() -> None:
    trainer = Trainer()
    for line in iter(sys.stdin.readline, ""):
        name, *given = json.loads(line)
        do: Callable[..., None] = getattr(trainer, name)
        try:
            do(*given)
        except Exception as error:  # noqa: BLE001 (the test looks at it)
            say(done=name, error=describe(error))
        else:
            say(done=name, error=None)


if __name__ == "__main__":
    main()

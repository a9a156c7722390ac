"""The runtimes by name, and which of them a stack was started on."""

from __future__ import annotations

from pathlib import Path
from typing import Final, Literal, NamedTuple, get_args

import orjson

from gym.files import write_atomically

RuntimeName = Literal["compose", "local", "ray", "slurm", "swarm"]
RUNTIMES: Final[tuple[RuntimeName, ...]] = get_args(RuntimeName)
ENGINES: Final = tuple(name for name in RUNTIMES if name not in ("compose", "local"))  # what `--on` takes
SESSION_FILE: Final = "session.json"
SLURM_FOLDER: Final = "slurm"  # below a stack's home
SLURM_JOB: Final = "job.json"  # in it, while there is a job of the stack


class EngineChoice(NamedTuple):
    """Where a stack runs: `--on ray://head:10001` is the runtime `ray` at that address."""

    runtime: RuntimeName
    address: str = ""  # "" where the engine is found by itself
    registry: str = ""  # the prefix below which its nodes find images; "" where none was named


def write_choice(home: Path, choice: EngineChoice) -> None:
    write_atomically(home / SESSION_FILE, orjson.dumps(choice._asdict()).decode())


def read_choice(home: Path) -> EngineChoice | None:
    """None where no stack was started. A damaged note is one of the local runtime, which finds nothing then."""
    try:
        noted = orjson.loads((home / SESSION_FILE).read_bytes())
    except (FileNotFoundError, NotADirectoryError):
        return None
    except ValueError:
        noted = {}
    runtime: RuntimeName = next((name for name in RUNTIMES if name == noted.get("runtime")), "local")
    return EngineChoice(runtime, str(noted.get("address", "")), str(noted.get("registry", "")))

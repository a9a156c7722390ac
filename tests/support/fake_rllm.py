"""The two types of rLLM that the runtime makes, in a package of that name, for tests where rLLM is not installed."""

from __future__ import annotations

from pathlib import Path

PROTOCOL = """
from dataclasses import dataclass, field
from typing import Any

@dataclass
class RemoteTaskResult:
    finished: bool
    session_id: str
    task_id: str = ""
    reward: float | None = None
    error: str | None = None
    termination_reason: Any = None
    elapsed: float = 0.0
    raw_result: Any = None
    metadata: dict = field(default_factory=dict)
"""
WORKFLOW = """
from enum import Enum

class TerminationReason(Enum):
    ENV_DONE = "env_done"
    TIMEOUT = "timeout"
    ERROR = "error"
"""


def write_rllm(folder: Path) -> None:
    for name, text in (("engine/remote_runtime/protocol.py", PROTOCOL), ("workflows/workflow.py", WORKFLOW)):
        path = folder / "rllm" / name
        path.parent.mkdir(parents=True)
        path.write_text(text)

"""An environment in which coverage does not follow a process: where its own file or memory would be what is tested."""

from __future__ import annotations

import os


def unmeasured() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith("COV")}

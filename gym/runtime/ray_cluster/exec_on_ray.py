"""Runs a command beside a server of a stack on Ray and passes on what it wrote: HOME REPLICA WORDS..."""

from __future__ import annotations

import sys
from pathlib import Path

from gym.runtime.ray_cluster.ray_stack import RayStack


def main(arguments: list[str]) -> int:
    home, replica, *words = arguments
    stack = RayStack.of(Path(home))
    code, output = stack.ray.get(stack.actor(replica).run.remote(words))
    sys.stdout.buffer.write(output)
    sys.stdout.buffer.flush()
    return int(code)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

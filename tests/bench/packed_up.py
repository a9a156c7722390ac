"""How long `gym up IMAGE` takes where the image was pulled, beside idle containers: python -m tests.bench.packed_up

The image comes from a real registry on loopback. `gym up` starts five containers: router, console, the environment,
its agent, a model. The baseline is five that do nothing, by one `docker compose up --wait` of the same run.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from tests.bench.compose_up import bare_containers, timed
from tests.support.cli import gym
from tests.support.registry import registry_in, remove_references


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--environment", default="mcqa")
    parser.add_argument("--times", type=int, default=3)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, registry_in(Path(folder)) as registry:
        user, image = Path(folder) / "user", f"{registry}/bench/{options.environment}:1"
        user.mkdir()
        try:
            run("pack", options.environment, "-t", image, cwd=Path(folder))
            run("push", image, cwd=Path(folder))
            remove_references(registry)
            run("pull", image, cwd=user)
            for _ in range(options.times):
                bare_containers(5)
                with timed("gym up IMAGE, pulled", "(figure: <= 6 s)"):
                    run("up", image, "--model", "scripted", "--port", "0", cwd=user)
                run("down", cwd=user)
        finally:
            gym("down", cwd=user)
            remove_references(registry)


def run(*words: str, cwd: Path) -> None:
    done = gym(*words, cwd=cwd, timeout=600)
    assert done.returncode == 0, done.stderr


if __name__ == "__main__":
    main()

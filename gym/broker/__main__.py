"""`python -m gym.broker`: the broker of a stack, until SIGTERM. GYM_SANDBOX_CONFIG names its configuration."""

from __future__ import annotations

import logging
import sys

from gym.broker.broker_server import run
from gym.errors import GymError


def main() -> int:
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    try:
        run()
    except GymError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

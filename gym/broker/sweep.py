"""`python -m gym.broker.sweep CONFIG`: removes everything that carries the label of a stack whose broker has ended.

CONFIG is the broker's configuration. `gym down` runs this, so that nothing remains however the broker ended.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from gym.broker.config import ENV_FILE, BrokerConfig, read_config
from gym.broker.providers.factory import make_provider
from gym.errors import GymError


def main(argv: list[str]) -> int:
    try:
        config = read_config({ENV_FILE: argv[0]})
        asyncio.run(sweep(config, Path(argv[0]).parent))
    except GymError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


async def sweep(config: BrokerConfig, folder: Path) -> int:
    """How many things went. `folder` is that of the broker's configuration."""
    provider = make_provider(config.provider, folder, config.settings.options)
    await provider.open()
    try:
        return await provider.sweep(config.stack, frozenset())
    finally:
        await provider.close()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""Rows of any environment, by its own get_next_item: python make_rows.py module:Class --folder CHECKOUT --count 100."""

from __future__ import annotations

import argparse
import asyncio
import sys
from typing import Any

from item_codec import write_item
from loading import load_environment

from gym.errors import UserError
from gym.wire.json_text import write_json


async def make_rows(environment: str, count: int, folders: list[str]) -> list[dict[str, Any]]:
    made = await load_environment(environment, {}, folders)
    agent = {"type": "responses_api_agents", "name": "atropos_play_agent"}
    asked = {"responses_create_params": {"input": []}, "agent_ref": agent}
    return [{**asked, "item": write_item(await made.get_next_item())} for _ in range(count)]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("environment", help="module:Class")
    parser.add_argument("--folder", action="append", default=[])
    parser.add_argument("--count", type=int, default=100)
    asked = parser.parse_args()
    try:
        rows = asyncio.run(make_rows(asked.environment, asked.count, asked.folder))
    except (UserError, TypeError) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    for row in rows:
        sys.stdout.buffer.write(write_json(row) + b"\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

"""A real broker with real sandboxes for tests of servers that run programs in them."""

from __future__ import annotations

import shutil
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from gym.wire.items import message, response
from gym.wire.sandbox import Grant
from tests.support.sandbox_broker import TOKEN, BrokerProcess

IMAGE = "python:3.13-slim"


class Access(NamedTuple):
    url: str
    token: str

    @property
    def settings(self) -> dict[str, str]:
        """For `MyServer.app(fields, name=..., **access.settings)`."""
        return {"sandbox_url": self.url, "sandbox_token": self.token}


@contextmanager
def broker_process(provider: str = "subprocess", grant: Grant | None = None) -> Iterator[Access]:
    """`python -m gym.broker`, and the access of one instance to it."""
    folder = Path(tempfile.mkdtemp(prefix="gym-broker-"))
    broker = BrokerProcess(folder, provider, grant or Grant(images=("*",), warm=0))
    try:
        broker.start()
        wait_until_up(broker)
        yield Access(broker.url, TOKEN)
    finally:
        broker.close()
        shutil.rmtree(folder, ignore_errors=True)


def wait_until_up(broker: BrokerProcess) -> None:
    ends = time.monotonic() + 120
    while True:
        try:
            with urllib.request.urlopen(f"{broker.url}/healthz", timeout=5) as reply:
                if reply.status == 200:
                    return
        except OSError:
            pass
        assert time.monotonic() < ends, broker.log
        time.sleep(0.05)


def answer(text: str, *more: dict[str, Any]) -> dict[str, Any]:
    return response([*more, message(text)], model="test")


def fenced(code: str) -> str:
    return f"Here it is.\n```python\n{code}\n```\n"

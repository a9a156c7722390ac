"""A sandbox broker for the length of a trial: for the tests, cases and audit of a server that runs programs."""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from gym import labels
from gym.programs import end_program
from gym.runtime.local.listeners import address_of, listen_on_loopback
from gym.runtime.sandbox_access import access_environ
from gym.wire.sandbox import token_digest

STOP_SECONDS = 40.0  # it removes its sandboxes before it ends


class TrialAccess(NamedTuple):
    url: str
    token: str

    @property
    def environ(self) -> dict[str, str]:
        """For a server that is started."""
        return access_environ(self.url, self.token)

    @property
    def settings(self) -> dict[str, str]:
        """For `MyServer.app(fields, name=..., **access.settings)`."""
        return {"sandbox_url": self.url, "sandbox_token": self.token}


@contextmanager
def trial_broker(grant: Mapping[str, Any], provider: str = "auto") -> Iterator[TrialAccess]:
    """The access of a server with this grant. `auto` is the best provider of this machine."""
    token = secrets.token_hex(32)
    access = {"token_sha256": token_digest(token), "grant": dict(grant)}
    stack = f"trial-{secrets.token_hex(4)}"
    config = {"stack": stack, "provider": provider, "instances": {"trial": access}}
    with tempfile.TemporaryDirectory(prefix="gym-trial-") as folder, listen_on_loopback() as listener:
        path = Path(folder) / "config.json"
        path.write_text(json.dumps(config), "utf-8")
        variables = {labels.ENV_SANDBOX_CONFIG: str(path), labels.ENV_LISTEN: f"fd:{listener.fileno()}"}
        with (Path(folder) / "log").open("wb") as log:
            broker = subprocess.Popen(
                (sys.executable, "-P", "-m", "gym.broker"),
                env={**os.environ, **variables},
                pass_fds=(listener.fileno(),),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        host, port = address_of(listener)
        try:
            yield TrialAccess(f"http://{host}:{port}", token)
        finally:
            end_program(broker, STOP_SECONDS)

"""Sidecars as processes of this machine: each in a folder of its own, on a port that is kept for it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Mapping
from pathlib import Path

from gym import labels
from gym.config.late_references import fill_own
from gym.config.model import SidecarHealth
from gym.plan.model import Sidecar
from gym.plan.plan_sidecars import reach_in_secrets, reach_sidecars
from gym.programs import find_program
from gym.runtime.local.child_process import ProcessSpec
from gym.runtime.local.home import Home
from gym.runtime.local.probe import SILENCE, probe
from gym.runtime.local.replica_role import ReplicaRole
from gym.runtime.local.stack_order import StackOrder
from gym.venvs import UV
from gym.wire.stack_names import SERVICE

DRAIN_SECONDS = 10.0
BAD_STATUS = frozenset(range(400, 600))
# What a program of this machine may need; not the keys that a user's shell holds.
INHERITED = (
    *("PATH", "HOME", "USER", "LOGNAME", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR", "LD_LIBRARY_PATH"),
    *("SSL_CERT_FILE", "SSL_CERT_DIR"),
)


def sidecar_role(sidecar: Sidecar) -> ReplicaRole:
    program = Path(sidecar.spec.command[0]).name
    return ReplicaRole(
        sidecar.name, sidecar.slug, SERVICE, program, binds=True, check=SidecarCheck(sidecar.spec.health)
    )


def sidecar_spec(order: StackOrder, home: Home, sidecar: Sidecar, port: int) -> ProcessSpec:
    folder = home.services / sidecar.slug
    return ProcessSpec(
        id=sidecar.slug,
        argv=tuple(fill_own(list(sidecar.spec.command), port, str(folder))),
        env={
            **{name: order.environ[name] for name in INHERITED if name in order.environ},
            UV: str(find_program("uv", package="uv")),
            **fill_own(sidecar.spec.env, port, str(folder)),
            labels.ENV_DISCOVERY: str(home.discovery),  # by which a later command knows it as this stack's
            labels.ENV_REPLICA: sidecar.slug,
        },
        cwd=folder,
        log=home.log(sidecar.slug),
        drain_seconds=DRAIN_SECONDS,
        digest=sidecar.digest,
    )


def order_with_addresses(order: StackOrder, ports: Mapping[str, int]) -> StackOrder:
    """With the addresses at which sidecars listen, for the servers. `ports` is by slug."""
    if not order.plan.sidecars:
        return order

    def locate(sidecar: Sidecar) -> tuple[str, int]:
        return "127.0.0.1", ports[sidecar.slug]

    plan, secrets = reach_sidecars(order.plan, locate), reach_in_secrets(order.plan, order.secrets, locate)
    return order.model_copy(update={"plan": plan, "secrets": secrets})


class SidecarCheck:
    """Asks a sidecar whether it can serve."""

    def __init__(self, health: SidecarHealth) -> None:
        self._health = health

    async def __call__(self, spec: ProcessSpec, address: tuple[str, int], timeout: float) -> str:
        """Empty when it can, else why not."""
        if self._health.kind == "none":
            return ""
        if self._health.kind == "http":
            return await probe(address, self._health.path, wrong=BAD_STATUS, timeout=timeout)
        try:
            async with asyncio.timeout(timeout):
                if self._health.kind == "tcp":
                    return await _connect(address)
                return await _run(fill_own(list(self._health.command), address[1], str(spec.cwd)), spec)
        except TimeoutError:
            return f"{SILENCE[0]} within {timeout:g} s"


async def _connect(address: tuple[str, int]) -> str:
    try:
        _, writer = await asyncio.open_connection(*address)
    except OSError as error:
        return f"{SILENCE[0]} on port {address[1]}: {os.strerror(error.errno) if error.errno else error}"
    writer.close()
    with contextlib.suppress(OSError):
        await writer.wait_closed()
    return ""


async def _run(argv: list[str], spec: ProcessSpec) -> str:
    try:
        process = await asyncio.create_subprocess_exec(
            *argv,
            cwd=spec.cwd,
            env=dict(spec.env),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            start_new_session=True,
        )
    except OSError as error:
        return f"its health check `{argv[0]}` cannot be run: {error.strerror}"
    try:
        output, _ = await process.communicate()
    finally:
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            await process.wait()
    if process.returncode == 0:
        return ""
    last = output.decode("utf-8", "replace").strip().splitlines()[-1:] or ["it says nothing"]
    return f"its health check `{argv[0]}` ended with {process.returncode}: {last[0][:200]}"

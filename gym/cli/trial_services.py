"""The services of a server's configuration for the length of a trial: for its tests, its cases and its audit.

Each runs as a process of this machine, as on the local runtime, with nothing stored from before.
"""

from __future__ import annotations

import asyncio
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

from gym.config import CatalogEntry, own_fields
from gym.config.late_references import fill_services, find_services
from gym.config.model import SidecarSpec
from gym.config.read_sidecars import services_of
from gym.errors import InfraError
from gym.plan.model import Plan, Sidecar
from gym.programs import end_program
from gym.runtime.local.child_process import ProcessSpec
from gym.runtime.local.home import Home
from gym.runtime.local.listeners import address_of, reserve_port
from gym.runtime.local.process_logs import tail_from
from gym.runtime.local.sidecar_folders import check_sidecars, make_folders
from gym.runtime.local.sidecar_processes import SidecarCheck, sidecar_spec
from gym.runtime.local.stack_order import StackOrder

READY_SECONDS: Final = 120.0  # on however busy a machine
STOP_SECONDS: Final = 10.0
LOOK_SECONDS: Final = 0.05
ANSWER_SECONDS: Final = 3.0

Addresses = dict[str, tuple[str, int]]


@contextmanager
def trial_services(entry: CatalogEntry, environ: Mapping[str, str]) -> Iterator[Addresses]:
    """Where each listens, by its name."""
    specs = services_of(entry)
    if not specs:
        yield {}
        return
    plan = Plan(stack="trial", services=(), sidecars=tuple(_sidecar(entry.name, one) for one in specs))
    check_sidecars(plan, environ.get("PATH"))
    with tempfile.TemporaryDirectory(prefix="gym-trial-") as folder, ExitStack() as running:
        home = Home(Path(folder))
        make_folders(home, plan)
        order = StackOrder(plan=plan, environ=dict(environ))
        yield {one.spec.name: running.enter_context(_started(order, home, one)) for one in plan.sidecars}


def fields_with_services(entry: CatalogEntry, addresses: Addresses) -> dict[str, object]:
    """The fields that name a service, with its address."""
    named = {key: value for key, value in own_fields(entry).items() if any(find_services(value))}
    return dict(fill_services(named, addresses))


def _sidecar(instance: str, spec: SidecarSpec) -> Sidecar:
    return Sidecar(instance=instance, instance_slug=instance, slug=spec.name, spec=spec)


@contextmanager
def _started(order: StackOrder, home: Home, sidecar: Sidecar) -> Iterator[tuple[str, int]]:
    with reserve_port() as reserved:
        address = address_of(reserved)
        spec = sidecar_spec(order, home, sidecar, address[1])
        spec.log.parent.mkdir(exist_ok=True)
        with spec.log.open("wb") as log:
            process = subprocess.Popen(
                spec.argv, cwd=spec.cwd, env=dict(spec.env), stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )
        try:
            _wait_ready(process, SidecarCheck(sidecar.spec.health), spec, address, sidecar.name)
            yield address
        finally:
            end_program(process, STOP_SECONDS)


def _wait_ready(
    process: subprocess.Popen[bytes], check: SidecarCheck, spec: ProcessSpec, address: tuple[str, int], name: str
) -> None:
    deadline = time.monotonic() + READY_SECONDS
    while why := asyncio.run(check(spec, address, ANSWER_SECONDS)):
        ended = process.poll()
        if ended is not None or time.monotonic() > deadline:
            words = "\n".join(tail_from(spec.log, 0, 10))
            how = why if ended is None else f"exit code {ended}"
            raise InfraError(f"{name} does not start: {how}\n{words}", f"It was run as: {' '.join(spec.argv)}")
        time.sleep(LOOK_SECONDS)

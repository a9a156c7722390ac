"""The Ray runtime: a plan as actors of a cluster, kept by one of them that every command asks."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from gym.runtime.ray_cluster.cluster_note import forget_cluster
from gym.runtime.ray_cluster.ray_stack import (
    RayStack,
    chosen_replicas,
    find_not_awaited,
    not_running,
    observed_of,
    status_of,
)
from gym.runtime.runtime_names import RuntimeName
from gym.runtime.status import OnStatus, StackStatus

if TYPE_CHECKING:
    from gym.plan.model import Change, Observed, Plan
    from gym.runtime.protocol import ExecCommand, Prepared

LOOK_EVERY = 0.5


class RayRuntime:
    """gym.runtime.protocol.Runtime; see there."""

    name: RuntimeName = "ray"

    def observe(self, home: Path) -> Observed:
        from gym.plan.model import Observed  # noqa: PLC0415 (most commands need no plan)

        seen = RayStack.to_start(home).look()
        return observed_of(seen) if seen else Observed()

    def prepare(self, home: Path, plan: Plan, secrets: Mapping[str, str]) -> Prepared:
        from gym.runtime.protocol import Prepared  # noqa: PLC0415 (as above)
        from gym.runtime.ray_cluster.starting_actors import check_actors  # noqa: PLC0415 (as above)

        check_actors(plan)
        return Prepared(plan=plan, secrets=dict(secrets))

    def changes(self, home: Path, prepared: Prepared) -> tuple[Change, ...]:
        from gym.plan.plan_diff import diff  # noqa: PLC0415 (as above)

        return diff(prepared.plan, self.observe(home))

    def up(self, home: Path, prepared: Prepared, on_status: OnStatus, *, timeout: float | None) -> StackStatus:
        from gym.runtime.ray_cluster.starting_actors import start_actors  # noqa: PLC0415 (as above)

        return start_actors(home, prepared, on_status, timeout=timeout)

    def down(self, home: Path) -> bool:
        ended = RayStack.of(home).end()
        forget_cluster(home)
        return ended

    def status(self, home: Path) -> StackStatus | None:
        seen = RayStack.of(home).look()
        return status_of(seen) if seen else None

    def exec_command(self, home: Path, name: str, words: tuple[str, ...], *, terminal: bool) -> ExecCommand:
        """By a program here that passes on what the command wrote on its node; Ray has no terminal for it."""
        from gym.runtime.protocol import ExecCommand  # noqa: PLC0415 (as above)

        seen = RayStack.of(home).look()
        if seen is None:
            raise not_running(home)
        replica = chosen_replicas(seen, (name,))[0]
        runner = (sys.executable, "-P", "-m", "gym.runtime.ray_cluster.exec_on_ray", str(home), replica)
        return ExecCommand(replica=replica, argv=(*runner, *(words or ("env",))))

    def logs(self, home: Path, names: tuple[str, ...], *, follow: bool, tail: int) -> Iterator[str]:
        stack = RayStack.of(home)
        seen = stack.look()
        if seen is None:
            raise not_running(home)
        offsets: dict[tuple[str, object], int] = {}  # a replica that moved begins another file
        begin = -1  # the last lines of those that are there, then all of those that come
        while seen is not None:
            nodes = {one["replica"]: one["node"] for one in seen["replicas"] if one.get("ip")}
            wanted = [one for one in chosen_replicas(seen, names) if one in nodes]
            width = max((len(one) for one in wanted), default=0)
            prefix = len(wanted) > 1 or (follow and not names)
            for one in wanted:
                key = (one, nodes[one])
                offsets[key], text = stack.read_log(one, offsets.get(key, begin), tail)
                yield from (f"{one:<{width}} | {line}" if prefix else line for line in text.splitlines())
            if not follow:
                return
            begin = 0
            time.sleep(LOOK_EVERY)
            seen = stack.look()

    def restart(self, home: Path, names: tuple[str, ...], on_status: OnStatus, *, timeout: float | None) -> StackStatus:
        from gym.plan.model import Plan  # noqa: PLC0415 (as above)
        from gym.runtime.ray_cluster.starting_actors import wait_for  # noqa: PLC0415 (as above)

        stack = RayStack.of(home)
        keeper, seen = stack.keeper(), stack.look()
        if keeper is None or seen is None:
            raise not_running(home)
        chosen = chosen_replicas(seen, names)
        stack.ask(keeper.restart.remote(chosen))
        plan = Plan.model_validate(seen["plan"])
        return wait_for(
            stack,
            plan,
            on_status,
            timeout,
            lambda now: not now["busy"] and all(one["state"] == "healthy" for one in now["replicas"]),
            find_not_awaited(seen, chosen),
        )

    def reload(
        self, home: Path, prepared: Prepared, names: tuple[str, ...], on_status: OnStatus, *, timeout: float | None
    ) -> StackStatus:
        """A file that is not a source by its name, a prompt say, changes no digest; it changes the pack."""
        return self.up(home, prepared, on_status, timeout=timeout)

    def scale(
        self, home: Path, replicas: Mapping[str, int], on_status: OnStatus, *, timeout: float | None
    ) -> StackStatus:
        from gym.runtime.ray_cluster.starting_actors import scale_actors  # noqa: PLC0415 (as above)

        return scale_actors(home, replicas, on_status, timeout)

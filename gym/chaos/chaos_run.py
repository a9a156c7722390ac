"""Collections one after another while faults come at random, until there were enough of both; each is compared."""

from __future__ import annotations

import contextlib
import os
import random
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, Protocol

from gym.chaos.chaos_report import ChaosReport, StruckFault
from gym.chaos.chaos_setup import ChaosSetup, Fault, Happening, Missed, Tell
from gym.chaos.chaos_verdict import Rewards, read_rewards
from gym.chaos.collector_process import CollectorProcess
from gym.chaos.command_faults import command_faults
from gym.chaos.container_faults import ComposeTarget
from gym.chaos.faulty_model import FaultyModel, serve_faulty_model
from gym.chaos.process_faults import LocalTarget
from gym.chaos.process_usage import Usage, find_leaks, measure_usage
from gym.chaos.recovery_watch import GIVE_UP_SECONDS, Recovery, RecoveryWatch
from gym.chaos.sandbox_disk import SandboxDisks
from gym.errors import InfraError, UserError
from gym.runtime.identity import Identity

CALM: Final = (0.2, 2.0)  # seconds between two faults
GONE_SECONDS: Final = 120.0  # within them the last sandboxes of a collection that was killed have gone


class ChaosTarget(Protocol):
    left_out: tuple[str, ...]
    project: str  # by which the engine's sandboxes are labelled; "": it has none there

    def faults(self) -> list[Fault]: ...
    def processes(self) -> dict[str, list[Identity]]: ...
    def things(self) -> set[str]: ...
    def is_complete(self) -> bool: ...


def run_chaos(setup: ChaosSetup, tell: Tell = lambda _: None) -> ChaosReport:
    """The stack runs before, and afterwards."""
    if setup.runtime.name not in ("compose", "local"):
        raise UserError(
            f"gym chaos finds processes and containers of this machine; this stack runs on {setup.runtime.name}.",
            "Try it on a stack of --runtime compose or local, or break nodes by hand while gym rollouts collects.",
        )
    status = setup.runtime.status(setup.home)
    if status is None or not status.healthy:
        raise UserError("Chaos begins with a stack in which every replica is healthy.", "See which is not: gym ps")
    setup.folder.mkdir(parents=True, exist_ok=True)
    chance = random.Random(setup.seed)
    with contextlib.ExitStack() as stack:
        model = None
        if setup.model:
            hosts = _hosts(setup)
            model = stack.enter_context(serve_faulty_model(setup.model, hosts, chance))
        run = ChaosRun(setup, status.router, chance, model, tell)
        stack.callback(run.collector.close)
        return run.go()


class ChaosRun:
    def __init__(
        self, setup: ChaosSetup, router: str, chance: random.Random, model: FaultyModel | None, tell: Tell
    ) -> None:
        self.report = ChaosReport(setup.home.name, setup.runtime.name, setup.seed)
        self.collector = CollectorProcess(setup, _repeats(setup))
        self._setup = setup
        self._chance = chance
        self._model = model
        self._tell = tell
        self._target = _target(setup, chance)
        self._watch = RecoveryWatch(_discovery(setup), router, setup.token)
        self._disks: SandboxDisks | None = None
        self._began = time.monotonic()

    def go(self) -> ChaosReport:
        report = self.report
        right = self._undisturbed()
        faults = self._faults()
        things, report.before = self._target.things(), self._usage()
        report.load = (os.getloadavg()[0], 0.0)
        self._began = time.monotonic()
        plan = _endless(faults, self._chance)
        while report.rounds == 0 or self._more_to_come():
            output = self._setup.folder / f"chaos-{report.rounds}.jsonl"
            report.rounds += 1
            self._disturb(output, plan)
            if report.never_back:
                self.collector.close()
                break
            self.collector.finish(output)
            report.verdict.add(output, right, self._disks.filled if self._disks else 0)
            self._say(_words_of(report))
        if not report.never_back:
            with self._watch.outage() as seen:
                self._watch.wait(seen, self._all_there)
        report.seconds = time.monotonic() - self._began
        report.after = self._usage()
        report.leaks = find_leaks(report.before, report.after, self._setup.concurrency)
        report.orphans = self._orphans(things)
        report.load = (report.load[0], os.getloadavg()[0])
        report.collectors = self.collector.starts
        if self._model is not None:
            report.model_calls, report.spoilt_calls = self._model.calls, self._model.spoilt
        return report

    def _undisturbed(self) -> Rewards:
        output = self._setup.folder / "undisturbed.jsonl"
        self._say("a collection that nothing disturbs")
        self.collector.finish(output)
        right = read_rewards(output)
        self._say(f"{len(right):,} rollouts, mean reward {sum(right.values()) / max(1, len(right)):.3f}")
        return right

    def _faults(self) -> list[Fault]:
        setup = self._setup
        found = [*self._target.faults(), *self.collector.faults(self._chance), *command_faults(setup, self._chance)]
        found += self._model.faults() if self._model is not None else []
        if self._target.project:
            self._disks = SandboxDisks(self._target.project, self._chance)
            found.append(self._disks.fault())
        chosen = [one for one in found if setup.wants(one.name)]
        self.report.left_out += [*self._target.left_out, *_not_there(setup, {one.name for one in found})]
        if not chosen:
            raise UserError("None of these faults can be done to this stack.", "\n".join(self.report.left_out))
        return chosen

    def _more_to_come(self) -> bool:
        max_faults = self._setup.max_faults
        if max_faults is not None:
            return len(self.report.faults) < max_faults
        return time.monotonic() - self._began < self._setup.minutes * 60

    def _disturb(self, output: Path, plan: Iterator[tuple[Fault, str]]) -> None:
        self.collector.start(output)
        written = 0
        while self.collector.runs and self._more_to_come() and not self.report.never_back:
            if self.collector.written <= written:  # each fault finds a collection that gets on
                self.collector.wait(0.05)
                continue
            if self.collector.wait(self._chance.uniform(*CALM)) is not None:
                break
            written = self.collector.written
            self._strike(*next(plan))
        if not self.report.never_back:
            self.collector.wait()

    def _strike(self, fault: Fault, victim: str) -> None:
        at = time.monotonic()
        with self._watch.outage() as seen:
            try:
                fault.hit(victim)
            except Missed:
                return
            lasted = time.monotonic() - at
            recovery = self._watch.wait(seen, self._all_there)
        struck = StruckFault(fault.name, victim, at - self._began, lasted, recovery)
        self.report.faults.append(struck)
        self._say(f"{fault.name} of {victim}: {_words(struck.recovery)}")

    def _all_there(self) -> bool:
        """Asked only when the routes are whole: the supervisor or the engine has to answer."""
        try:
            status = self._setup.runtime.status(self._setup.home)
        except InfraError:
            return False
        return status is not None and status.healthy and self._target.is_complete()

    def _usage(self) -> dict[str, Usage]:
        return measure_usage(self._target.processes())

    def _orphans(self, before: set[str]) -> list[str]:
        return sorted(_wait_until_gone(lambda: self._target.things() - before, GONE_SECONDS))

    def _say(self, text: str) -> None:
        self._tell(Happening(time.monotonic() - self._began, text))


def _target(setup: ChaosSetup, chance: random.Random) -> ChaosTarget:
    return (ComposeTarget if setup.runtime.name == "compose" else LocalTarget)(setup.home, chance)


def _endless(faults: list[Fault], chance: random.Random) -> Iterator[tuple[Fault, str]]:
    """Every fault meets every victim before one comes again."""
    pairs = [(fault, victim) for fault in faults for victim in fault.victims]
    while True:
        chance.shuffle(pairs)
        yield from pairs


def _wait_until_gone(find: Callable[[], set[str]], seconds: float) -> set[str]:
    deadline = time.monotonic() + seconds
    while (found := find()) and time.monotonic() < deadline:
        time.sleep(0.5)
    return found


def _repeats(setup: ChaosSetup) -> int:
    rows = sum(1 for name in setup.inputs for line in Path(name).read_bytes().splitlines() if line.strip())
    if not rows:
        raise UserError(f"{', '.join(setup.inputs)}: there are no rows.", "Name a JSONL file, or a server")
    return -(-setup.rollouts // rows)


def _discovery(setup: ChaosSetup) -> Path:
    home = setup.home.resolve()
    return home / "discovery" / "discovery.json" if setup.runtime.name == "compose" else home / "discovery.json"


def _hosts(setup: ChaosSetup) -> tuple[str, ...]:
    """Containers reach this machine by the address of the engine's own bridge; where that is not ours, by loopback."""
    if setup.runtime.name != "compose":
        return ("127.0.0.1",)
    from gym.chaos.container_network import bridge_addresses  # noqa: PLC0415  (a local stack has no engine)

    return ("127.0.0.1", *bridge_addresses())


def _not_there(setup: ChaosSetup, there: set[str]) -> list[str]:
    """Why a fault that was wanted, or could be, is not among those that are done."""
    reasons = {
        "kill": "of a container, only with a sandbox broker, which starts it again",
        "clock": "libfaketime is not there (Debian: faketime)",
        "model": "no --model-proxy PORT=URL",
        "engine": "only with --engine-restart COMMAND",
        "disk": "this stack has no sandboxes on an engine",
    }
    families = {name.partition("-")[0] for name in there}
    missing = [name for name in reasons if name not in families and setup.wants(name)]
    return [f"{name}: {reasons[name]}" for name in missing]


def _words(found: Recovery) -> str:
    times = {"out of the routes": found.out, "served": found.served, "whole": found.whole}
    words = [f"{what} after {seconds:.1f} s" for what, seconds in times.items() if seconds is not None]
    return ", ".join(words) + ("" if found.whole is not None else f"; not whole within {GIVE_UP_SECONDS:g} s")


def _words_of(report: ChaosReport) -> str:
    one = report.verdict
    found = f"{one.lost} lost, {one.doubled} doubled, {one.wrong} wrong, {one.failed} failed"
    return f"collection {report.rounds}: {one.rollouts:,} rollouts compared, {found}"

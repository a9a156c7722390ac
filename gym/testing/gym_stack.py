"""A stack of its own for a test, in the manner of testcontainers: `start`, `stop`, `with_…`, a context manager."""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from gym.cli.planning import plan_stack
from gym.cli.stack_request import load_named
from gym.cli.stack_session import choose_runtime, has_stack, home_in, make_runtime
from gym.client import Stack
from gym.config import StackConfig, collect_secrets
from gym.errors import GymError, NotUp, UserError
from gym.labels import DEFAULT_STACK
from gym.plan import RouterPlan
from gym.runtime.local.home import prepare_home
from gym.runtime.protocol import Runtime
from gym.runtime.runtime_names import EngineChoice, RuntimeName, read_choice, write_choice
from gym.runtime.status import StackStatus
from gym.testing.stack_reaper import StackReaper

LOG_LINES = 200
DRAIN_SECONDS = 5.0  # what is in flight when a test ends is of no interest


class GymStack:
    """`words` are what `gym up` takes: servers, images, `KEY=VALUE`. It listens on a free port of this machine.

    `async with` starts and stops it beside the event loop. Where the process of the test is killed, another ends the
    stack.
    """

    def __init__(
        self,
        *words: str,
        model: str | None = "scripted",
        runtime: RuntimeName | None = None,
        folder: str | Path | None = None,
        timeout: float | None = None,
    ) -> None:
        """`runtime`: Compose where an engine answers, else processes, as `gym up` chooses.

        `folder`: where `gym up` would be typed; its `env.yaml` and servers count, and the stack's `.gym` stays there.
        Without it this process's folder counts, and `.gym` is in one that goes with the stack.
        """
        self._words = list(words)
        self._model = model
        self._runtime_name = runtime
        self._given = None if folder is None else Path(folder).resolve()
        self._timeout = timeout
        self._files: list[Path] = []
        self._overrides: list[Path] = []
        self._replicas: list[str] = []
        self._environ: dict[str, str] | None = None
        self._running: _Running | None = None

    def with_config(self, path: str | Path) -> Self:
        """A configuration file, as `-c` names it."""
        self._files.append(Path(path))
        return self

    def with_override(self, path: str | Path) -> Self:
        """A Compose file over ours, as `-f` names it."""
        self._overrides.append(Path(path))
        return self

    def with_replicas(self, name: str, count: int) -> Self:
        self._replicas.append(f"{name}={count}")
        return self

    def with_environ(self, environ: Mapping[str, str]) -> Self:
        """What the configuration reads in place of this process's variables."""
        self._environ = dict(environ)
        return self

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    async def __aenter__(self) -> Self:
        """What the test itself serves answers meanwhile. A start that is cancelled goes on to its end and is undone."""
        starting = asyncio.ensure_future(asyncio.to_thread(self.start))
        try:
            return await asyncio.shield(starting)
        except asyncio.CancelledError:
            await asyncio.wait([starting])
            await asyncio.to_thread(self.stop)
            raise

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await asyncio.to_thread(self.stop)

    def start(self) -> Self:
        """Returns when every replica is healthy; the error says what the others wrote last."""
        if self._running:
            return self
        loaded = self._load()
        name = self._runtime_name or choose_runtime(None)[0]
        runtime = make_runtime(name, tuple((self._given or Path()) / one for one in self._overrides))
        running = _Running(self._given, name, runtime)
        with running.removed_unless_started():
            plan = plan_stack(loaded, DEFAULT_STACK, RouterPlan(port=0))
            plan = plan.model_copy(update={"drain_seconds": DRAIN_SECONDS})
            prepared = runtime.prepare(running.home, plan, collect_secrets(loaded))
            running.status = runtime.up(running.home, prepared, lambda _: None, timeout=self._timeout)
        self._running = running
        return self

    def _load(self) -> StackConfig:
        return load_named(
            self._words,
            model=self._model,
            files=self._files,
            replicas=self._replicas,
            environ=os.environ if self._environ is None else self._environ,
            cwd=self._given,
        )

    def stop(self) -> None:
        running, self._running = self._running, None
        if running:
            running.remove()

    @property
    def url(self) -> str:
        """Where the router answers."""
        return self._started().status.router

    @property
    def folder(self) -> Path:
        """Other `gym` commands that are typed here mean this stack."""
        return self._started().folder

    def connect(self, *, timeout: float = 3600.0) -> Stack:
        """Ask its agents, run rows, get an `openai` client of a model."""
        return Stack.connect(self.url, timeout=timeout)

    def status(self) -> StackStatus:
        running = self._started()
        running.status = running.runtime.status(running.home) or running.status
        return running.status

    def get_logs(self, *names: str) -> str:
        """The last lines of these instances, or of all."""
        return self._started().logs(names)

    def _started(self) -> _Running:
        if self._running is None:
            raise UserError("The stack was not started.", "with GymStack(…) as stack: …, or stack.start()")
        return self._running


class _Running:
    def __init__(self, given: Path | None, name: RuntimeName, runtime: Runtime) -> None:
        self.folder = given or Path(tempfile.mkdtemp(prefix="gym-test-")).resolve()
        self.home = home_in(self.folder, DEFAULT_STACK)
        self.runtime = runtime
        self.status = StackStatus(stack=DEFAULT_STACK, runtime=name, router="")
        if (held := read_choice(self.home)) and has_stack(held.runtime, self.home):
            raise UserError(f"A stack runs in {given} already.", "Give the test a folder of its own, or: gym down")
        self._made = () if given else (self.folder,)
        self._reaper = StackReaper(self.home, name, *self._made)

    @contextmanager
    def removed_unless_started(self) -> Iterator[None]:
        try:
            prepare_home(self.home)
            write_choice(self.home, EngineChoice(self.status.runtime))
            yield
        except BaseException as error:
            if isinstance(error, NotUp):
                error.add_note(self.logs(()))
            self.remove()
            raise

    def logs(self, names: tuple[str, ...]) -> str:
        with suppress(GymError):
            return "\n".join(deque(self.runtime.logs(self.home, names, follow=False, tail=LOG_LINES), LOG_LINES))
        return ""

    def remove(self) -> None:
        self.runtime.down(self.home)
        self._reaper.dismiss()
        for folder in self._made:
            shutil.rmtree(folder, ignore_errors=True)

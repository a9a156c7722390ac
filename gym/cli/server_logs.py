"""The servers' logs, shown beside a command that waits: without those of the router and the console."""

from __future__ import annotations

import threading
from contextlib import suppress
from typing import Final

from gym.cli import console
from gym.cli.stack_session import StackSession
from gym.errors import GymError

PAUSE_SECONDS: Final = 0.5  # before a log that broke off is followed once more


class ServerLogs:
    """`ended` is set once the stack no longer runs."""

    def __init__(self, session: StackSession) -> None:
        self.ended = threading.Event()
        self._session = session
        self._names: tuple[str, ...] = ()
        self._hidden = ""

    def follow(self, names: tuple[str, ...]) -> None:
        """These from now on, and no others."""
        if names != self._names:
            self._names = names
            threading.Thread(target=self._show, args=(names,), name="server logs", daemon=True).start()

    def hide(self, replica: str) -> None:
        """It ends at each start, and says so each time. "" hides none."""
        self._hidden = replica

    def _show(self, names: tuple[str, ...]) -> None:
        home, runtime = self._session
        while self._names == names and not self.ended.is_set():
            with suppress(Exception):  # whatever an engine that is busy answers: it is asked once more
                for line in runtime.logs(home, names, follow=True, tail=0):
                    if self._names != names:
                        return
                    if line.partition("|")[0].strip() != self._hidden or not self._hidden:
                        console.show_line(line.rstrip("\n"))
            if not self._runs():
                self.ended.set()
            self.ended.wait(PAUSE_SECONDS)

    def _runs(self) -> bool:
        """An engine that does not answer at this moment says nothing about the stack."""
        try:
            return self._session.runtime.status(self._session.home) is not None
        except GymError:
            return True

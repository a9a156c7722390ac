"""The error families: what happened, where, and the next command to type.

`UserError` is theirs to fix (exit code 1), `InfraError` is the machine's (exit code 1 too, other words); any other
exception is a bug of ours and is reported as one (exit code 3).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any


class GymError(Exception):
    """A known error, shown as one paragraph: `what` states it, `hint` is the next step."""

    def __init__(self, what: str, hint: str = "") -> None:
        super().__init__(what)
        self.what = what
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.what}\n{self.hint}" if self.hint else self.what

    def __reduce__(self) -> tuple[Any, ...]:
        """Another process gets it as it is, whatever a subclass's arguments: else a process pool breaks on it."""
        return BaseException.__new__, (type(self), *self.args), self.__dict__


class UserError(GymError):
    """Something the user wrote or typed."""


class InfraError(GymError):
    """Something the machine, the network or an outside program did."""


@dataclass(frozen=True, slots=True)
class Problem:
    """One finding in a user's file: where, what was found, what to write instead."""

    what: str
    file: str = ""
    line: int = 0
    key: str = ""
    hint: str = ""
    value: str = ""  # the value found there, cut short: findings that differ in it alone are one

    def __str__(self) -> str:
        where = f"{self.file}:{self.line}: " if self.file and self.line else f"{self.file}: " if self.file else ""
        key = f"{self.key}: " if self.key else ""
        return f"{where}{key}{self.what}" + (f"\n    {self.hint}" if self.hint else "")


class ConfigError(UserError):
    """All problems of a configuration at once."""

    def __init__(self, problems: Iterable[Problem], hint: str = "") -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(str(problem) for problem in self.problems), hint)


class ProgramFailed(InfraError):
    """An outside program (docker, uv, traefik) ended badly: the command, its exit code, its last words."""

    def __init__(self, argv: Iterable[str], code: int, output: str, hint: str = "") -> None:
        self.argv = tuple(argv)
        self.code = code
        self.output = output
        tail = "\n".join(output.strip().splitlines()[-20:])
        super().__init__(f"`{' '.join(self.argv)}` ended with exit code {code}:\n{tail}", hint)


class StartFailed(InfraError):
    """A server did not become healthy; carries its name and last log lines."""

    def __init__(self, server: str, what: str, log: str = "", hint: str = "") -> None:
        self.server = server
        self.problem = what
        self.log = log
        super().__init__(f"{server}: {what}" + (f"\n{log}" if log else ""), hint)


class NotUp(StartFailed):
    """Some servers of a stack are not healthy; all of it stays as it is, and they go on starting."""


def first_error(errors: BaseExceptionGroup[BaseException]) -> BaseException:
    """The error that ended a group; the others followed from it."""
    first = errors.exceptions[0]
    return first_error(first) if isinstance(first, BaseExceptionGroup) else first

"""Rows and errors of libraries that keep their environments by name, in a registry."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar

from pydantic import Field

from gym.wire.failures import RolloutError
from gym.wire.rows import Row

T = TypeVar("T")


class RegisteredRow(Row):
    environment: str  # an id of the library's registry
    seed: int | None = Field(default=None, ge=0)
    settings: dict[str, Any] = Field(default_factory=dict)  # of what makes it


def find_registered(name: str, registry: Mapping[str, T], library: str) -> T:
    """The entry of that name; without one the row is wrong."""
    if name in registry:
        return registry[name]
    close = ", ".join(difflib.get_close_matches(name, registry, n=3))
    raise RolloutError("row", f"environment: {library} has no {name!r}" + (f": {close}?" if close else ""))


@contextmanager
def row_blamed(what: str, *errors: type[Exception]) -> Iterator[None]:
    """Around what a library makes of a row's fields alone: these errors say that they cannot be."""
    try:
        yield
    except errors as error:
        raise RolloutError("row", f"{what}: {error}") from None


@contextmanager
def library_blamed(what: str) -> Iterator[None]:
    """Around what a library may not be able to do here: a package, a file or a network that it wants is missing."""
    try:
        yield
    except (ImportError, LookupError, OSError) as error:
        why = f"{what} does not run here: {type(error).__name__}: {str(error).strip()[:200]}"
        raise RolloutError("resources", why, retryable=False) from None

"""Says why a server's file cannot be imported, by the author's own lines alone; and what an `app` is that is none."""

from __future__ import annotations

import inspect
import traceback
from pathlib import Path
from typing import Any

from gym.errors import UserError
from gym.server.base import Server
from gym.server.errors import is_own_file


def broken_app(error: Exception, app: Path) -> UserError:
    if isinstance(error, SyntaxError) and error.filename and error.lineno and Path(error.filename).is_file():
        shown = error.filename if _is_elsewhere(error.filename, app) else Path(error.filename).name
        line = (error.text or "").strip()
        return UserError(f"{shown}:{error.lineno}: {error.msg}" + (f"\n    {line}" if line else ""))
    found = traceback.TracebackException.from_exception(error)
    _keep_own(found)
    return UserError(f"{app.name} cannot be imported.\n{''.join(found.format()).rstrip()}")


def refuse_no_app(app: Any, path: Path) -> None:
    kind = app if isinstance(app, type) else app.__self__ if inspect.ismethod(app) else None
    if isinstance(kind, type) and issubclass(kind, Server) and (kind is app or app.__name__ == "app"):
        given = kind.__name__ if kind is app else f"{kind.__name__}.app"
        raise UserError(
            f"{path.name}: `app = {given}` is {'a class' if kind is app else 'a method'}, not an app.",
            f"Write `app = {kind.__name__}.app()`.",
        )


def _is_elsewhere(file: str, app: Path) -> bool:
    return not is_own_file(file) or app.resolve().parent not in Path(file).resolve().parents


def _keep_own(found: traceback.TracebackException) -> None:
    """Of what led to it too. An error without a line of the author's keeps its lines."""
    own = [one for one in found.stack if is_own_file(one.filename)]
    if own:
        found.stack = traceback.StackSummary.from_list(own)
    for one in (found.__cause__, found.__context__):
        if one is not None:
            _keep_own(one)

"""What runs in the sandbox, once for each candidate: `answer` calls the `transform` of its code.

Sent there as text: nothing but the standard library, any Python from 3.8 on.
"""

from __future__ import annotations

import builtins
import sys
from typing import Any

DEPTH = 1000  # of Python's stack, as usual
MODULES = (
    "os posix subprocess shutil pathlib builtins socket _socket urllib requests http ftplib smtplib pickle shelve"
    " marshal importlib pkgutil ctypes _ctypes multiprocessing threading signal tempfile fileinput codecs pty fcntl"
    " resource syslog asyncio concurrent"
)
NAMES = "open input breakpoint help license credits copyright exit quit vars dir globals locals"
BANNED_MODULES, BANNED_NAMES = frozenset(MODULES.split()), frozenset(NAMES.split())


def answer(code: str, grid: Any) -> Any:
    """Rules of the game, not isolation: what a `transform` may use. The sandbox isolates it."""
    sys.setrecursionlimit(DEPTH)
    names: dict[str, Any] = {"__builtins__": _builtins(), "__name__": "__main__"}
    exec(compile(code, "<transform>", "exec", dont_inherit=True), names)
    if "transform" not in names:
        raise NameError("no transform function is defined")
    return plain(names["transform"](grid))


def plain(value: Any) -> Any:
    """Arrays as lists, tuples as lists, numbers as Python's own."""
    if hasattr(value, "detach") and hasattr(value, "cpu"):
        value = value.detach().cpu()
    if hasattr(value, "tolist"):
        return plain(value.tolist())
    if isinstance(value, (list, tuple)):
        return [plain(one) for one in value]
    return value


def _builtins() -> dict[str, Any]:
    real_import = builtins.__import__

    def guarded(name: str, *arguments: Any, **options: Any) -> Any:
        caller = arguments[0] if arguments else options.get("globals")
        theirs = isinstance(caller, dict) and caller.get("__builtins__") is names
        if theirs and name.partition(".")[0] in BANNED_MODULES:
            raise ImportError(f"{name} may not be imported here")
        return real_import(name, *arguments, **options)

    names = {key: value for key, value in vars(builtins).items() if key not in BANNED_NAMES}
    names["__import__"] = guarded
    return names

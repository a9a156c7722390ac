"""Turns whatever a server's code raised into the failure contract, and tells an author the line that broke."""

from __future__ import annotations

import logging
import sysconfig
import traceback
from collections.abc import Iterable, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, cast

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails, to_json

from gym.wire.failures import KINDS, FailureKind, RolloutError

FINDINGS = 50  # of one body that are shown
SHOWN_INPUT = 1_000  # letters of what was found at a place, and of an error's message
log = logging.getLogger("gym.server")
_LIBRARIES = (sysconfig.get_paths()["purelib"], sysconfig.get_paths()["stdlib"], str(Path(__file__).parents[1]))


def error_to_failure(
    error: BaseException, *, server: str, role: str, rollout_id: str = "", code: bool = True
) -> RolloutError:
    """Peers' failures pass on as they are, bad bodies are the row's fault, everything else is a bug of this server.

    So is what would end a process: `SystemExit`, as argparse raises it, a panic of a library in Rust, a cancel of the
    author's own. It fails the call it was raised in. Without `code` its message names the line alone: a policy reads
    what a tool raised. The log has all of it.
    """
    if isinstance(error, RolloutError):
        error.server = error.server or server
        if error.kind == "sandbox" and error.status < 500:
            error.status = 500  # the broker's 404 or 410 was about our request; here it would read as the row's fault
        return error
    if isinstance(error, ValidationError):
        return RolloutError("row", validation_message(error), server=server)
    kind = cast(FailureKind, role if role in KINDS else "agent")
    about = f"rollout {rollout_id}: " if rollout_id else ""
    if isinstance(error, TimeoutError):
        message = _message(error) or "a call took too long"
        if place := _own_place(traceback.extract_tb(error.__traceback__), code):
            message = f"{message} ({place})"
            log.error("%s%s", about, message, exc_info=error)
        return RolloutError("timeout", message, server=server)
    log.error("%s%s", about, error_text(error), exc_info=error)
    return RolloutError(kind, error_text(error, code), server=server, retryable=isinstance(error, OSError))


def validation_message(error: ValidationError, model: type[BaseModel] | None = None) -> str:
    """`options: Field required (expected: list of object)`, findings on one line; `model` knows what is expected."""
    return "; ".join(_finding(one, model) for one in error.errors())


def _finding(one: ErrorDetails, model: type[BaseModel] | None) -> str:
    place = ".".join(str(part) for part in one["loc"]) or "body"
    if model is None or one["type"] != "missing":
        return f"{place}: {one['msg']}"
    from gym.wire.expected import expected_at  # noqa: PLC0415 (when something is missing)

    expected = expected_at(model, one["loc"])
    return f"{place}: {one['msg']}" + (f" (expected: {expected})" if expected else "")


def own_validation_error(error: ValidationError, code: bool = True) -> RolloutError:
    """A model that the author's code could not fill: a bug there, not in the body that was sent."""
    log.error("%s", error_text(error), exc_info=error)
    return RolloutError("resources", error_text(error, code), retryable=False)


def validation_detail(error: ValidationError) -> bytes:
    """The 422 body that FastAPI would have written: models have learnt to read it as a tool's output.

    What was sent is shown as far as it helps: a model that sends megabytes does not get them back.
    """
    found: Iterable[Any] = islice(error.errors(include_url=False, include_context=False), FINDINGS)
    detail = [{**one, "loc": ["body", *one["loc"]], "input": _shown(one.get("input"))} for one in found]
    return _to_json({"detail": detail})


def _shown(given: Any) -> Any:
    text = given if isinstance(given, str) else _to_json(given).decode(errors="replace")
    return given if len(text) <= SHOWN_INPUT else f"{text[:SHOWN_INPUT]}…"


def _to_json(value: Any) -> bytes:
    return to_json(value, inf_nan_mode="null", fallback=repr)  # integers of any size, as a model may write


def error_text(error: BaseException, code: bool = True) -> str:
    """`ZeroDivisionError: division by zero (app.py:31 in verify: return 1 / 0)`: the author's own last line."""
    message = validation_message(error) if isinstance(error, ValidationError) else _message(error)
    text = type(error).__name__ + (f": {message}" if message else "")
    stack, cause = traceback.extract_tb(error.__traceback__), error.__cause__
    place = _own_place(stack, code)
    if not place and cause:  # an `async def` raises StopIteration as a RuntimeError whose cause knows the line
        place = _own_place(traceback.extract_tb(cause.__traceback__), code)
    place = place or _show_place(stack[-1:], code)
    return f"{text} ({place})" if place else text


def _message(error: BaseException) -> str:
    """Its first line; an author may have put all that a policy wrote into it."""
    try:
        lines = str(error).strip().splitlines()
    except (Exception, SystemExit):  # noqa: BLE001 (a str() that breaks)
        return ""
    first = lines[0] if lines else ""
    return first if len(first) <= SHOWN_INPUT else f"{first[:SHOWN_INPUT]}…"


def place_of(stack: Sequence[traceback.FrameSummary]) -> str:
    """`app.py:31 in verify: return 1 / 0`: the innermost line that is the author's own, else the innermost."""
    return _own_place(stack) or _show_place(stack[-1:])


def is_own_file(name: str) -> bool:
    """Of an author: no library, nothing of ours, nothing that Python itself runs."""
    return not name.startswith((*_LIBRARIES, "<frozen "))


def _own_place(stack: Sequence[traceback.FrameSummary], code: bool = True) -> str:
    return _show_place([frame for frame in stack if is_own_file(frame.filename)][-1:], code)


def _show_place(frames: Sequence[traceback.FrameSummary], code: bool = True) -> str:
    if not frames:
        return ""
    (last,) = frames
    place = f"{Path(last.filename).name}:{last.lineno} in {last.name}"
    return f"{place}: {last.line}" if code and last.line else place

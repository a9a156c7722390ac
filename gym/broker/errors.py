"""The broker's errors: refused (the caller's fault), busy (retry later), unavailable (the engine), lost and unknown."""

from __future__ import annotations

import asyncio
from typing import NoReturn

from gym.errors import InfraError
from gym.wire.failures import RolloutError


class RequestRefused(RolloutError):
    """The request is not granted, or invalid. A retry changes nothing."""

    def __init__(self, message: str, status: int = 403) -> None:
        super().__init__("row", message, retryable=False, status=status)


class RetryLater(RolloutError):
    """Nothing was done; the same request may be retried after `retry_after` seconds."""

    def __init__(self, message: str, retry_after: float, status: int) -> None:
        super().__init__("sandbox", message, retryable=True, status=status)
        self.retry_after = max(retry_after, 0.05)


class Busy(RetryLater):
    def __init__(self, message: str, retry_after: float) -> None:
        super().__init__(message, retry_after, 429)


class Unavailable(RetryLater):
    def __init__(self, message: str, retry_after: float = 2.0) -> None:
        super().__init__(message, retry_after, 503)


class Unknown(RolloutError):
    """There is no sandbox of this id that the caller may see."""

    def __init__(self, message: str) -> None:
        super().__init__("sandbox", message, retryable=True, status=404)


class Lost(RolloutError):
    """The sandbox was there and is gone: this attempt fails, a new one may work.

    `own_doing`: what ran in it brought its end about."""

    def __init__(self, message: str, *, own_doing: bool = False) -> None:
        super().__init__("sandbox", message, retryable=True, status=410)
        self.own_doing = own_doing


class Conflict(RolloutError):
    """The sandbox is in a state in which this cannot be done."""

    def __init__(self, message: str, *, retryable: bool = False) -> None:
        super().__init__("sandbox", message, retryable=retryable, status=409)


def is_engine_fault(error: BaseException) -> bool:
    """True when the engine failed, not the request."""
    if isinstance(error, RolloutError):
        return False
    return isinstance(error, InfraError | OSError | TimeoutError)


def engine_failure(error: BaseException) -> RolloutError:
    """A provider's exception as the contract's failure."""
    if isinstance(error, RolloutError):
        return error
    if isinstance(error, asyncio.IncompleteReadError | InfraError | OSError | TimeoutError):
        return Unavailable(f"the sandbox engine: {str(error) or type(error).__name__}")
    return RolloutError("sandbox", f"{type(error).__name__}: {error}", retryable=False)


def forget_frames(error: BaseException | None) -> None:
    """Drops the tracebacks of an error that is stored: they hold bodies and buffers of functions it came through."""
    while error is not None and error.__traceback__ is not None:  # some are their own cause
        error.__traceback__, error = None, error.__cause__ or error.__context__


def refuse(what: str, instead: str) -> NoReturn:
    """A spec that a provider cannot fulfil."""
    raise RolloutError("row", f"{what}. {instead}", retryable=False, status=422)


def reason_of(error: BaseException) -> str:
    """Why no answer came."""
    return "no answer in time" if isinstance(error, TimeoutError) else str(error) or type(error).__name__

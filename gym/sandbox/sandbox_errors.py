"""What the broker answers when it cannot, as the exceptions of its client."""

from __future__ import annotations

import orjson

from gym.wire.failures import RolloutError, error_from_reply


class FileProblem(RolloutError):
    """What the sandbox's own system answered about a file; `errno` as in `errno.ENOENT`."""

    def __init__(self, message: str, errno: int, path: str, status: int) -> None:
        super().__init__("sandbox", message, server="sandbox", retryable=False, status=status)
        self.errno = errno
        self.path = path


class SandboxEnded(RolloutError):
    """The sandbox is lost by what ran in it: a program took more memory or disk than its limits."""

    def __init__(self, message: str, status: int = 410) -> None:
        super().__init__("sandbox", message, server="sandbox", retryable=True, status=status)


def is_of_the_sandbox(error: RolloutError) -> bool:
    """Its own system's answer: no `sh` is left in it, no folder, no process to be had."""
    return error.kind == "sandbox" and not error.retryable and error.status == 422


def failure(status: int, body: bytes) -> RolloutError:
    error = error_from_reply(status, body, server="sandbox", kind="sandbox")
    error.status = status
    try:
        fields = orjson.loads(body)["error"]
        if fields.get("own_doing") is True:
            return SandboxEnded(error.message, status)
        return FileProblem(error.message, int(fields["errno"]), str(fields.get("path", "")), status)
    except (orjson.JSONDecodeError, AttributeError, KeyError, TypeError, ValueError):
        return error

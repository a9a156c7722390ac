"""What goes wrong, as one sentence and what to do. NeMo RL reads `status`: 5xx, 408 and 429 are worth another try."""

from __future__ import annotations


class StackError(RuntimeError):
    """The stack is not there, refuses, or is not what was asked for."""


class RolloutFailed(RuntimeError):
    """A row without a verdict. Made of plain values only, so that it survives the way out of a Ray actor."""

    def __init__(
        self,
        message: str,
        status: int = 500,
        kind: str = "agent",
        retryable: bool = True,
        response_content: bytes = b"",
    ) -> None:
        super().__init__(message, status, kind, retryable, response_content)
        self.message = message
        self.status = status
        self.kind = kind
        self.retryable = retryable
        self.response_content = response_content

    def __str__(self) -> str:
        return self.message

"""A method that an author wrote: which model its body is checked by, and whether it takes a session's state."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from inspect import isawaitable
from typing import Any, NoReturn, get_type_hints

from pydantic import BaseModel, ValidationError
from pydantic_core import from_json

from gym.server.author_shape import must_be_async
from gym.server.errors import own_validation_error, validation_message
from gym.wire.failures import RolloutError
from gym.wire.json_text import lacks
from gym.wire.rows import has_plain_items, read_body, read_with_unread


@dataclass(frozen=True)
class Hook:
    """`reads_items`: its items are dicts, so that their arrays may come unread."""

    method: Callable[..., Any]
    model: type[BaseModel]
    wants_state: bool
    reads_items: bool

    @classmethod
    def of(cls, method: Callable[..., Any], default: type[BaseModel]) -> Hook:
        parameters = list(inspect.signature(method).parameters)
        function = getattr(method, "__func__", method)
        hint = get_type_hints(function).get(parameters[0]) if parameters else None
        model = hint if isinstance(hint, type) and issubclass(hint, BaseModel) else default
        return cls(method, model, "state" in parameters, has_plain_items(model))

    async def __call__(self, body: bytes, state: Any) -> Any:
        return await self.run(self.parse(body), state)

    def parse(self, body: bytes) -> BaseModel:
        if self.reads_items and (request := read_with_unread(self.model, body)) is not None:
            return request
        if not (lacks(body, b"NaN") and lacks(body, b"Infinity")):
            _refuse_what_json_cannot_say(body)
        try:
            return read_body(self.model, body)
        except ValidationError as error:
            raise RolloutError("row", validation_message(error, self.model)) from None

    async def run(self, request: BaseModel, state: Any) -> Any:
        try:
            outcome = self.method(request, state=state) if self.wants_state else self.method(request)
            return await outcome if isawaitable(outcome) else self._refuse_plain()
        except ValidationError as error:  # of something the author parsed: the body was checked before
            raise own_validation_error(error) from error

    def _refuse_plain(self) -> NoReturn:
        """A plain function may return what can be awaited, so that it is refused when it does not."""
        message = must_be_async(getattr(self.method, "__self__", self), self.method)
        raise RolloutError("resources", message, retryable=False)


def _refuse_what_json_cannot_say(body: bytes) -> None:
    """Pydantic reads NaN and Infinity; the echo would carry them to peers that do not."""
    try:
        from_json(body, allow_inf_nan=False)  # orjson takes three times as long for a long text
    except ValueError as error:
        raise RolloutError("row", f"body: not JSON: {error}") from None

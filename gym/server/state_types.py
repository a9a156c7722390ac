"""Which types of a session's state survive in a store outside of the process: checked when the server starts."""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import enum
import pathlib
import types
import typing
import uuid
from collections.abc import Callable
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from pydantic import BaseModel, TypeAdapter

from gym.errors import UserError

_PLAIN = (
    *(str, int, float, bool, types.NoneType, datetime.date, datetime.time, datetime.timedelta),
    *(decimal.Decimal, uuid.UUID, pathlib.PurePath, enum.Enum),
)
_CONTAINERS = (list, dict, tuple, set, frozenset)
_HINT = "keep there what JSON can say (texts, numbers, lists, dataclasses, models), or leave `state:` out"


def state_adapter(server: type, seed: Callable[..., Any]) -> TypeAdapter[Any]:
    """Reads and writes the state that `seed` returns; `UserError` names the class and field that cannot survive."""
    kind = _type_of_state(server, seed)
    if kind is Any:
        what = f"{server.__name__}: state: its seed does not say what it returns, so nothing else could read it"
        raise UserError(what, "annotate it: async def seed(self, row: Row) -> MyState")
    _check(kind, server.__name__, kind, ())
    return TypeAdapter(kind)


def _type_of_state(server: type, seed: Callable[..., Any]) -> Any:
    said = get_type_hints(getattr(seed, "__func__", seed)).get("return", Any)
    for part in get_args(said) or (said,):
        if isinstance(part, TypeVar):
            return _type_argument(server)
    return said


def _type_argument(server: type) -> Any:
    """Of `class Weather(ResourcesServer[State])`."""
    for kind in server.__mro__:
        for base in getattr(kind, "__orig_bases__", ()):
            found = [one for one in get_args(base) if not isinstance(one, TypeVar)]
            if found and get_origin(base) is not typing.Generic:
                return found[0]
    return Any


def _check(kind: Any, where: str, owner: Any, seen: tuple[Any, ...]) -> None:
    origin = get_origin(kind)
    if kind is Any or kind in seen or origin is Literal:
        return
    if origin is Annotated:
        _check(get_args(kind)[0], where, owner, seen)
    elif origin in (Union, types.UnionType, *_CONTAINERS):
        for part in get_args(kind):
            if part is not Ellipsis:
                _check(part, where, owner, seen)
    elif kind not in _CONTAINERS and not (isinstance(kind, type) and issubclass(kind, _PLAIN)):
        for name, field in _fields(kind, where).items():
            _check(field, f"{_name(kind)}.{name}", kind, (*seen, kind))


def _fields(kind: Any, where: str) -> dict[str, Any]:
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        if kind.__private_attributes__:
            raise _lost(f"{kind.__name__}.{next(iter(kind.__private_attributes__))}", "a private attribute")
        return {name: field.annotation for name, field in kind.model_fields.items()}
    if dataclasses.is_dataclass(kind):
        hints = get_type_hints(kind)
        for field in dataclasses.fields(kind):
            if not field.init:
                raise _lost(f"{_name(kind)}.{field.name}", "a field with init=False")
        return {field.name: hints[field.name] for field in dataclasses.fields(kind)}
    if typing.is_typeddict(kind) or (isinstance(kind, type) and issubclass(kind, tuple) and hasattr(kind, "_fields")):
        return get_type_hints(kind)
    raise _lost(where, _name(kind))


def _lost(where: str, what: str) -> UserError:
    return UserError(f"state: {where} is {what}, which another process cannot be given", _HINT)


def _name(kind: Any) -> str:
    return (
        f"{kind.__module__}.{kind.__qualname__}"
        if isinstance(kind, type) and kind.__module__ != "builtins"
        else (getattr(kind, "__qualname__", None) or str(kind))
    )

"""Refuses, at the start, methods of an author that would fail every rollout: not async, or with other parameters.

What may work is let through: a plain function may return something to await, a decorator may give it other parameters.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from types import FunctionType, UnionType
from typing import Any, NoReturn, Union, get_args, get_origin, get_type_hints

from gym.errors import UserError


def refuse_bad_methods(server: object, expected: Mapping[str, Sequence[str]]) -> None:
    """`expected`: what each method is given, after self. One that is given `state` by its name may go without."""
    for name, arguments in expected.items():
        method = getattr(server, name)
        if cannot_be_awaited(method):
            raise UserError(must_be_async(server, method, name), f"Write `async def {name}{written(method)}` there.")
        if not _can_take(method, arguments):
            raise UserError(f"{method_place(server, method, name)}: {_wrong_parameters(name, method, arguments)}")


def refuse_bad_init(kind: type, taken: Sequence[str]) -> None:
    init = _init_of(kind)
    if not _can_take(init, ("self", *taken)):
        what = f"{kind.__name__}.__init__{show_place(init)}: {_wrong_parameters('__init__', init, taken)}"
        raise UserError(what, f"Call `super().__init__({', '.join(taken)})` in it; or write `async def start(self)`.")


def refuse_init_alone(kind: type) -> NoReturn:
    what = f"{kind.__name__}.__init__{show_place(_init_of(kind))} does not call `super().__init__(config, settings)`"
    raise UserError(what, "Call it there first; or write `async def start(self)` in its place.")


def started_by(server: object, start: Callable[[], Any]) -> Awaitable[Any]:
    """What a `start` returns whose signature says nothing, if it can be awaited."""
    begun = start()
    if isinstance(begun, Awaitable):
        return begun
    raise UserError(must_be_async(server, start, "start"), f"Write `async def start{written(start)}` there.")


def must_be_async(server: object, method: Callable[..., Any], name: str = "") -> str:
    return f"{method_place(server, method, name)} must be `async def`" + (
        ", without `yield`" if inspect.isasyncgenfunction(method) else ""
    )


def method_place(server: object, method: Callable[..., Any], name: str = "") -> str:
    """`Quiz.verify (app.py:22)`."""
    function = _function(method)
    name = name or getattr(function, "__name__", type(method).__name__)
    return f"{type(server).__name__}.{name}{show_place(function)}"


def written(method: Callable[..., Any]) -> str:
    """`(self, rollout)`, as it stands in the file."""
    signature = inspect.signature(_function(method), follow_wrapped=False)
    bare = [one.replace(annotation=inspect.Parameter.empty) for one in signature.parameters.values()]
    return str(signature.replace(parameters=bare, return_annotation=inspect.Signature.empty))


def cannot_be_awaited(method: Callable[..., Any]) -> bool:
    """Only where it is sure: a plain function whose signature says so. Any other is refused when it is called."""
    function = _function(method)
    if not isinstance(function, FunctionType) or inspect.iscoroutinefunction(function):
        return False
    if hasattr(function, "__wrapped__") or function.__code__.co_flags & inspect.CO_ITERABLE_COROUTINE:
        return False
    return inspect.isasyncgenfunction(function) or _says_plain(function)


def _init_of(kind: type) -> Any:
    return next(vars(one)["__init__"] for one in kind.__mro__ if "__init__" in vars(one))


def _says_plain(function: FunctionType) -> bool:
    try:
        hint = get_type_hints(function).get("return", Any)
    except Exception:  # noqa: BLE001 (a hint may name what only a type checker imports)
        return False
    return _is_plain(hint)


def _is_plain(hint: Any) -> bool:
    origin = get_origin(hint) or hint
    if origin in (Union, UnionType):
        return all(_is_plain(one) for one in get_args(hint))
    return isinstance(origin, type) and origin not in (object, Any) and not issubclass(origin, Awaitable)


def _can_take(method: Callable[..., Any], arguments: Sequence[str]) -> bool:
    try:
        signature = inspect.signature(method, follow_wrapped=False)
        wants_state = "state" in inspect.signature(method).parameters
    except (TypeError, ValueError):  # one that does not say
        return True
    places = [one for one in arguments if one != "state="]
    try:
        signature.bind(*places, **({"state": None} if wants_state and "state=" in arguments else {}))
    except TypeError:
        return False
    return True


def _wrong_parameters(name: str, method: Callable[..., Any], arguments: Sequence[str]) -> str:
    places = [one for one in arguments if one != "state="]
    forms = [["self", *places]] + ([["self", *places, "state"]] if "state=" in arguments else [])
    right = " or ".join(f"({', '.join(form)})" for form in forms)
    return f"`{name}` takes {right}, and this one takes {written(method)}"


def _function(method: Callable[..., Any]) -> Any:
    return getattr(method, "__func__", method)


def show_place(function: Any) -> str:
    """` (app.py:22)`, behind its name."""
    code = getattr(function, "__code__", None)
    return f" ({Path(code.co_filename).name}:{code.co_firstlineno})" if code else ""

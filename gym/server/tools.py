"""`@tool`: one method, and its signature gives the route, the JSON schema and the MCP tool."""

from __future__ import annotations

import inspect
import re
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar, get_type_hints, overload

import orjson
from pydantic import BaseModel, Field, TypeAdapter, ValidationError, create_model
from pydantic.errors import PydanticUserError
from pydantic_core import to_jsonable_python

from gym.errors import UserError
from gym.server.author_shape import show_place
from gym.server.errors import own_validation_error
from gym.server.score import describe
from gym.wire.deep_values import UNWRITABLE, cut_depth, is_too_deep
from gym.wire.failures import RolloutError
from gym.wire.json_text import write_any_json, write_json

F = TypeVar("F", bound=Callable[..., Any])

NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
# A model chooses tool names: none of these may ever be one.
RESERVED = frozenset(
    (
        "verify",
        "seed_session",
        "close_session",
        "aggregate_metrics",
        "reverify_mode",
        "run",
        "healthz",
        "health",
        "livez",
    )
    + ("readyz", "tools", "mcp", "docs", "redoc", "reset", "step", "close", "v1", "stats", "metrics")
)
_MARK = "__gym_tool__"


class ResultSchema(NamedTuple):
    """Always of an object: `wraps` what is not one below `result`."""

    schema: dict[str, Any]
    wraps: bool


@dataclass(frozen=True)
class Tool:
    name: str
    description: str
    arguments: type[BaseModel]
    method: Callable[..., Awaitable[Any]]  # bound
    parameters: tuple[str, ...]
    wants_state: bool
    returns: Any = Any  # as the method's signature says it

    def result_schema(self) -> ResultSchema | None:
        """None where the method does not say what it returns."""
        try:
            schema = TypeAdapter(self.returns).json_schema(mode="serialization")
        except PydanticUserError:
            return None
        if not schema or self.returns is type(None):
            return None
        schema.pop("title", None)
        if schema.get("type") == "object":
            return ResultSchema(schema, wraps=False)
        definitions = {"$defs": schema.pop("$defs")} if "$defs" in schema else {}
        wrapped = {"type": "object", "properties": {"result": schema}, "required": ["result"], **definitions}
        return ResultSchema(wrapped, wraps=True)

    def schema(self) -> dict[str, Any]:
        """The tool as a row's `tools` list has it: strict where every argument has a type and no default."""
        schema = self.arguments.model_json_schema()
        schema.pop("title", None)
        schema.setdefault("properties", {})
        schema["additionalProperties"] = False
        for one in schema["properties"].values():
            one.pop("title", None)
        typed = all(one.keys() - {"description"} for one in schema["properties"].values())  # a strict model wants it
        strict = typed and set(schema.get("required", ())) == set(schema["properties"])
        return {
            "type": "function",
            "name": self.name,
            "description": self.description,
            "parameters": {"required": [], **schema},
            "strict": strict,
        }

    async def call(self, body: bytes, state: Any) -> Any:
        """Parsed arguments in, the method's own return value out. `ValidationError` names the bad argument."""
        parsed = self.arguments.model_validate_json(body.strip() or b"{}")
        arguments = {name: getattr(parsed, _field_name(name)) for name in self.parameters}
        try:
            return await (self.method(**arguments, state=state) if self.wants_state else self.method(**arguments))
        except ValidationError as error:
            raise own_validation_error(error, code=False) from error

    def write(self, result: Any) -> bytes:
        """What `call` returned, as JSON; what cannot be is the author's mistake, and named with its tool."""
        try:
            return result_to_json(result)
        except UNWRITABLE as error:
            why = str(error).splitlines()[0] if str(error) else type(error).__name__
            what = describe(result) if isinstance(result, Coroutine) else f"{describe(result)}, no JSON: {why}"
            message = f"the tool {self.name}{show_place(self.method)} returned {what}"
            raise RolloutError("resources", message, retryable=False) from error


@overload
def tool(method: F) -> F: ...
@overload
def tool() -> Callable[[F], F]: ...
def tool(method: Any = None, **words: Any) -> Any:
    """Marks an async method as a tool. A parameter called `state` receives the rollout's state; no schema shows it."""
    function = getattr(method, "__func__", method)
    if words or not (method is None or callable(function)):
        raise UserError("@tool takes nothing: a tool has the name of its method, and its docstring", "Write `@tool`.")
    if method is None:  # `@tool()`
        return tool
    what = f"@tool {method.__qualname__}{show_place(function)}"
    if isinstance(method, (staticmethod, classmethod)):
        raise UserError(f"{what} must be a method with `self`", f"Take @{type(method).__name__} away.")
    if not inspect.iscoroutinefunction(function):
        yields = inspect.isasyncgenfunction(function)
        raise UserError(f"{what} must be `async def`" + (", without `yield`" if yields else ""))
    setattr(method, _MARK, True)
    return method


def collect_tools(owner: object) -> dict[str, Tool]:
    found: dict[str, Tool] = {}
    for name, member in inspect.getmembers(type(owner), inspect.isfunction):
        if getattr(member, _MARK, False):
            found[name] = _make_tool(owner, name, member)
    return found


def may_be_tool(name: str) -> bool:
    """Whether a route of that name can be a tool's: the contract uses some names, and clients read few characters."""
    return name not in RESERVED and NAME.fullmatch(name) is not None


def result_to_json(result: Any) -> bytes:
    try:
        if isinstance(result, BaseModel):
            return write_any_json(result)
        return write_json(result, default=to_jsonable_python, option=orjson.OPT_NON_STR_KEYS)
    except UNWRITABLE as error:
        if is_too_deep(error):  # a model may nest its arguments so, and a tool give them back
            return write_any_json(cut_depth(dict(result) if isinstance(result, BaseModel) else result))
        if isinstance(result, BaseModel):
            raise
        return write_any_json(result)  # something no JSON can say, which this says better


def _field_name(parameter: str) -> str:
    """A parameter may be called `json`, `schema` or `_x`: as a field of a pydantic model it may not."""
    return f"argument_{parameter}"


def _make_tool(owner: object, name: str, function: Callable[..., Any]) -> Tool:
    place = f"{type(owner).__name__}.{name}{show_place(function)}"
    if not may_be_tool(name):
        why = "the contract uses that name" if name in RESERVED else "models read 64 letters at most, of a-z A-Z 0-9 _"
        raise UserError(f"{place} cannot be a tool: {why}", "Rename the method.")
    hints = _hints_of(function, place)
    fields: dict[str, Any] = {}
    names: list[str] = []
    parameters = _parameters_of(getattr(owner, name), place)
    for parameter in parameters:
        if parameter.name != "state":
            default = ... if parameter.default is parameter.empty else parameter.default
            hint = hints.get(parameter.name, Any)
            fields[_field_name(parameter.name)] = (hint, Field(default, alias=parameter.name))
            names.append(parameter.name)
    return Tool(
        name=name,
        description=inspect.getdoc(function) or "",
        arguments=_arguments_model(name, fields, place),
        method=getattr(owner, name),
        parameters=tuple(names),
        wants_state=len(fields) != len(parameters),
        returns=hints.get("return", Any),
    )


def _parameters_of(method: Callable[..., Any], place: str) -> list[inspect.Parameter]:
    """Without `self`, whatever that is called."""
    try:
        parameters = list(inspect.signature(method).parameters.values())
    except ValueError:
        raise UserError(f"{place}: a tool is a method, and this one has no `self`", "Write it first.") from None
    for one in parameters:
        if one.kind not in (one.POSITIONAL_OR_KEYWORD, one.KEYWORD_ONLY):
            shown = f"`{one}, /`" if one.kind == one.POSITIONAL_ONLY else str(one).partition(":")[0]
            raise UserError(f"{place}: a tool has named parameters only, not {shown}")
    return parameters


def _hints_of(function: Callable[..., Any], place: str) -> dict[str, Any]:
    try:
        return get_type_hints(function, include_extras=True)
    except NameError as error:
        raise UserError(f"{place}: a type of its signature is not known: {error}") from None


def _arguments_model(name: str, fields: Mapping[str, Any], place: str) -> type[BaseModel]:
    try:
        return create_model(f"{name}_arguments", **fields)
    except PydanticUserError as error:
        why = str(error).splitlines()[0].partition(". ")[0]  # and not pydantic's advice
        argument = next((field.alias for hint, field in fields.values() if not _is_readable(hint)), "")
        what = f"{place}: {f'its argument {argument!r}' if argument else 'an argument'} cannot be read from JSON: {why}"
        raise UserError(what, "Give it a type of Python's own, a pydantic model, a dataclass or a TypedDict.") from None


def _is_readable(hint: Any) -> bool:
    try:
        TypeAdapter(hint)
    except PydanticUserError:
        return False
    return True

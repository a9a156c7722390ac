"""The bodies of the contract: rows, verify requests and replies. Unknown fields travel through untouched."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, TypeVar

import orjson
from pydantic import BaseModel, ConfigDict, Field, SerializerFunctionWrapHandler, ValidationError, field_serializer
from pydantic_core import from_json, to_json

from gym.wire import items
from gym.wire.failures import RolloutError
from gym.wire.json_text import lacks
from gym.wire.unread import PLACES, cut_arrays, read_all

M = TypeVar("M", bound=BaseModel)

ReverifyMode = Literal["stateless", "unsupported", "unknown"]
AUTO = "auto"  # what `tools` of a row says that offers those of its server, whichever these are
PARAMS, DEFAULTS = "responses_create_params", "responses_create_params_defaults"


class Tolerant(BaseModel):
    """A peer's data: known fields are checked, unknown ones are kept."""

    model_config = ConfigDict(extra="allow")


class CreateParams(Tolerant):
    """What a model is asked. Only `input` and `tools` are looked at; sampling parameters pass through."""

    input: str | list[dict[str, Any]] = Field(default_factory=list)
    tools: list[dict[str, Any]] = Field(default_factory=list)
    instructions: str | None = None

    @field_serializer("input", mode="wrap")
    def _read_input(self, value: Any, write: SerializerFunctionWrapHandler) -> Any:
        return write(read_all(value))


class AgentRef(Tolerant):
    type: Literal["responses_api_agents"] = "responses_api_agents"
    name: str


class Row(Tolerant):
    """One line of a data set, and the body of `/run` and `/seed_session`. Subclass it to type a server's own fields."""

    responses_create_params: CreateParams


class ModelReply(Tolerant):
    """A Responses reply, as far as verifiers read it."""

    output: list[dict[str, Any]]  # a reply without it is broken, and must not be scored as an empty answer
    usage: dict[str, Any] | None = None

    @field_serializer("output", mode="wrap")
    def _read_output(self, value: Any, write: SerializerFunctionWrapHandler) -> Any:
        return write(read_all(value))


class VerifyRequest(Row):
    """A row and the response to it. Subclass it to type the fields a verifier needs."""

    response: ModelReply

    @property
    def output_text(self) -> str:
        """Every assistant text, joined with nothing."""
        return items.output_text(self.response.output)

    @property
    def joined_text(self) -> str:
        """Every assistant text, each on lines of its own."""
        return items.joined_text(self.response.output)

    @property
    def last_text(self) -> str:
        """The last assistant message."""
        return items.last_assistant_text(self.response.output)

    @property
    def function_calls(self) -> list[items.Item]:
        return items.function_calls(self.response.output)


class VerifyResponse(Tolerant):
    """The fields a verifier adds to the echo of its request. Subclass it to name more than the reward."""

    reward: float


class MultiRewardResponse(VerifyResponse):
    """Several rewards beside their scalar; trainers expect the components to sum to it."""

    reward_components: dict[str, float]


def fill_tools(row: Mapping[str, Any], tools: Callable[[], Sequence[Any]]) -> dict[str, Any]:
    """The row with these tools where it says "auto"; `tools` is asked for no other row."""
    params = row.get(PARAMS)
    if not asks_for_tools(row) or not isinstance(params, Mapping):
        return dict(row)
    return {**row, PARAMS: {**params, "tools": list(tools())}}


def asks_for_tools(row: Mapping[str, Any]) -> bool:
    params = row.get(PARAMS)
    return isinstance(params, Mapping) and params.get("tools") == AUTO


def fill_params(fields: dict[str, Any]) -> dict[str, Any]:
    """A row whose client sends parameters of its own: what these leave out, or leave empty, is the row's default."""
    defaults = fields[DEFAULTS] or {}
    if not isinstance(defaults, dict):
        raise RolloutError("row", f"{DEFAULTS}: an object is needed, found {type(defaults).__name__}")
    sent = {name: value for name, value in fields[PARAMS].items() if value not in (None, "", [])}
    others = {name: value for name, value in fields.items() if name != DEFAULTS}
    return {**others, PARAMS: {**defaults, **sent}}


def read_body(model: type[M], body: bytes) -> M:
    """A checked body. A null where the model has a default counts as missing: columnar stores write it for that."""
    try:
        return model.model_validate_json(body)
    except ValidationError as error:
        nulls = [one["loc"] for one in error.errors() if one["type"] != "missing" and one["input"] is None]
        if not nulls:
            raise
        given = from_json(body)
        for place in nulls:
            _drop_null(given, place)
        try:
            read = model.model_validate_json(to_json(given))
        except ValidationError:
            raise error from None
        read.model_fields_set.update(str(place[0]) for place in nulls)  # they are among the keys of the body
        return read


def has_plain_items(model: type[BaseModel]) -> bool:
    """Whether nothing of a request's model looks at an item while the body is checked."""
    fields = model.model_fields
    if not issubclass(model, VerifyRequest) or fields["response"].annotation is not ModelReply:
        return False
    rules = model.__pydantic_decorators__
    checks = (rules.validators, rules.field_validators, rules.root_validators, rules.model_validators)
    return fields[PARAMS].annotation is CreateParams and not any(checks)


def read_with_unread(model: type[M], body: bytes) -> M | None:
    """`read_body` with the items' long arrays unread; None where it has to read all of them."""
    cut = cut_arrays(body)
    if cut is None or not (lacks(cut.light, b"NaN") and lacks(cut.light, b"Infinity")):
        return None
    try:
        request = read_body(model, cut.light)
    except ValidationError:
        return None  # so that no error shows a mark
    assert isinstance(request, VerifyRequest)
    places = (request.response.output, request.responses_create_params.input)
    return request if sum(cut.put_back(place, "row") for place in places) == len(cut.arrays) else None


def read_rollout(body: bytes) -> dict[str, Any] | None:
    """A reply of `/run`, checked to be JSON in whole, with the items' long arrays unread.

    None where it has to be parsed as a whole.
    """
    cut = cut_arrays(body)
    try:
        parsed = orjson.loads(cut.light) if cut is not None else None
    except orjson.JSONDecodeError:
        return None
    if cut is None or not isinstance(parsed, dict) or not cut.is_json:
        return None
    held = [one for name in ("response", PARAMS) if isinstance(one := parsed.get(name), dict)]
    put_back = sum(cut.put_back(one.get(place), "resources") for one in held for place in PLACES)
    return parsed if put_back == len(cut.arrays) else None


def _drop_null(given: Any, place: Sequence[int | str]) -> None:
    """A place also names the members of unions that it leads through: those are not keys."""
    for part in place:
        if isinstance(given, list) and isinstance(part, int) and part < len(given):
            given = given[part]
        elif isinstance(given, dict) and part in given:
            if given[part] is None:
                del given[part]
                return
            given = given[part]

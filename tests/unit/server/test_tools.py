"""`@tool`: the signature is the schema."""

from __future__ import annotations

import re
from enum import Enum
from typing import Annotated, Any, Literal

import orjson
import pytest
from openai.types.responses import FunctionTool
from pydantic import BaseModel, Field, ValidationError

from gym.errors import UserError
from gym.server import ResourcesServer, tool
from gym.server.config import Settings
from gym.server.resources import ResourcesConfig
from gym.server.tools import RESERVED, Tool, collect_tools, result_to_json
from gym.wire.failures import RolloutError


class Place(BaseModel):
    city: str
    zip_code: int | None = None


class Colour(Enum):
    RED = "red"


class Toolbox:
    """Any object's methods can be tools."""

    @tool
    async def look(self, place: Place, unit: Literal["C", "F"] = "C") -> dict[str, Any]:
        """Look at the sky.

        From a place.
        """
        return {"city": place.city, "unit": unit}

    @tool
    async def stir(self, state: dict[str, int], times: Annotated[int, Field(ge=1, description="How often")]) -> int:
        state["stirred"] += times
        return state["stirred"]

    @tool
    async def odd(self, json: int, schema: str, copy: bool, model_config: int = 1) -> list[Any]:
        return [json, schema, copy, model_config]

    @tool
    async def nothing(self) -> None:
        return None

    @tool
    async def breaks(self) -> Place:
        return Place.model_validate({"zip_code": 1})

    async def not_a_tool(self) -> None:
        raise AssertionError


@pytest.fixture
def box() -> dict[str, Tool]:
    return collect_tools(Toolbox())


def test_only_marked_methods_are_tools(box: dict[str, Tool]) -> None:
    assert sorted(box) == ["breaks", "look", "nothing", "odd", "stir"]


def test_a_schema_is_what_a_row_offers_to_a_model(box: dict[str, Tool]) -> None:
    schema = box["look"].schema()
    FunctionTool.model_validate(schema)
    assert schema["description"] == "Look at the sky.\n\nFrom a place."
    assert schema["strict"] is False  # `unit` has a default
    parameters = schema["parameters"]
    assert parameters["required"] == ["place"]
    assert parameters["additionalProperties"] is False
    assert parameters["properties"]["unit"] == {"default": "C", "enum": ["C", "F"], "type": "string"}
    assert parameters["$defs"]["Place"]["required"] == ["city"]


def test_the_state_is_in_no_schema_and_a_description_is(box: dict[str, Tool]) -> None:
    schema = box["stir"].schema()
    assert schema["strict"] is True
    assert list(schema["parameters"]["properties"]) == ["times"]
    assert schema["parameters"]["properties"]["times"]["description"] == "How often"
    assert box["stir"].wants_state
    assert not box["look"].wants_state


def test_a_tool_without_parameters_has_an_empty_schema(box: dict[str, Tool]) -> None:
    parameters = box["nothing"].schema()["parameters"]
    assert parameters == {"type": "object", "properties": {}, "required": [], "additionalProperties": False}


async def test_arguments_arrive_parsed(box: dict[str, Tool]) -> None:
    assert await box["look"].call(b'{"place": {"city": "Rome"}, "unit": "F"}', None) == {"city": "Rome", "unit": "F"}
    state = {"stirred": 1}
    assert await box["stir"].call(b'{"times": 2}', state) == 3
    assert state == {"stirred": 3}


@pytest.mark.parametrize("body", [b"", b"  ", b"{}", b'{"extra": 1}'])
async def test_a_tool_without_parameters_needs_no_body(box: dict[str, Tool], body: bytes) -> None:
    assert await box["nothing"].call(body, None) is None


async def test_a_parameter_may_bear_a_name_that_pydantic_uses(box: dict[str, Tool]) -> None:
    body = b'{"json": 1, "schema": "s", "copy": true, "model_config": 2}'
    assert await box["odd"].call(body, None) == [1, "s", True, 2]
    assert list(box["odd"].schema()["parameters"]["properties"]) == ["json", "schema", "copy", "model_config"]


@pytest.mark.parametrize(
    ("body", "place"),
    [
        (b"{}", ("place",)),
        (b'{"place": {}}', ("place", "city")),
        (b'{"place": {"city": "x"}, "unit": "K"}', ("unit",)),
        (b"[]", ()),
        (b"null", ()),
        (b"{", ()),
    ],
)
async def test_a_bad_argument_is_named_by_its_place(box: dict[str, Tool], body: bytes, place: tuple[str, ...]) -> None:
    with pytest.raises(ValidationError) as caught:
        await box["look"].call(body, None)
    assert caught.value.errors()[0]["loc"] == place


async def test_a_model_that_the_tool_itself_cannot_fill_is_its_own_fault(box: dict[str, Tool]) -> None:
    with pytest.raises(RolloutError, match="city") as caught:
        await box["breaks"].call(b"", None)
    assert (caught.value.kind, caught.value.retryable) == ("resources", False)


@pytest.mark.parametrize("name", sorted(RESERVED))
def test_a_name_of_the_contract_cannot_be_a_tools(name: str) -> None:
    async def method(self: Any) -> None:
        raise AssertionError

    method.__qualname__ = name
    owner = type("Owner", (), {name: tool(method)})()
    with pytest.raises(UserError, match="the contract uses that name"):
        collect_tools(owner)


def test_every_route_of_a_server_that_is_not_a_tool_bears_a_reserved_name() -> None:
    class Empty(ResourcesServer[None]):
        async def verify(self, rollout: Any) -> float:
            return 0.0

    server = Empty(ResourcesConfig(name="e"), Settings(name="e"))
    assert {route.path.strip("/").split("/")[0] for route in server.routes()} <= RESERVED


def test_a_tool_must_be_async() -> None:
    with pytest.raises(UserError, match="must be `async def`"):

        @tool
        def look(self: Any) -> None: ...


def test_a_tool_that_is_not_async_is_named_with_its_line() -> None:
    def look(self: Any) -> None: ...

    with pytest.raises(UserError, match=r"look \(test_tools\.py:\d+\) must be"):
        tool(look)


async def test_a_tool_may_be_marked_with_parentheses_too() -> None:
    class Marked:
        @tool()
        async def look(self, city: str) -> str:
            return city

    assert await collect_tools(Marked())["look"].call(b'{"city": "Rome"}', None) == "Rome"


def test_a_mark_that_is_given_a_name_says_what_to_write() -> None:
    with pytest.raises(UserError, match="@tool takes nothing"):
        tool("look")  # type: ignore[call-overload]
    with pytest.raises(UserError, match="@tool takes nothing"):
        tool(name="look")  # type: ignore[call-overload]


def test_a_tool_that_yields_is_refused() -> None:
    async def look(self: Any) -> Any:
        yield 1

    with pytest.raises(UserError, match=r"look \(test_tools\.py:\d+\) must be `async def`, without `yield`$"):
        tool(look)


@pytest.mark.parametrize("kind", [staticmethod, classmethod])
def test_a_static_method_is_not_a_tool(kind: Any) -> None:
    async def look() -> None: ...

    with pytest.raises(UserError, match=rf"look \(test_tools\.py:\d+\) must be a method.*\nTake @{kind.__name__} away"):
        tool(kind(look))


class Opaque:
    pass


def test_an_argument_that_no_json_can_be_is_named_with_its_tool() -> None:
    class Holder:
        @tool
        async def look(self, city: str, place: Opaque) -> None: ...

    with pytest.raises(UserError) as caught:
        collect_tools(Holder())
    assert re.match(r"Holder\.look \(test_tools\.py:\d+\): its argument 'place' cannot be read", caught.value.what)
    assert len(str(caught.value).splitlines()) == 2
    assert "arbitrary_types_allowed" not in str(caught.value)


def test_a_type_that_is_not_known_is_named_with_its_tool() -> None:
    async def look(self: Any, place: Any) -> None: ...

    look.__annotations__["place"] = "Absent"
    owner = type("Holder", (), {"look": tool(look)})()
    with pytest.raises(UserError, match=r"^Holder\.look \(test_tools\.py:\d+\): a type .* name 'Absent' is not"):
        collect_tools(owner)


async def _late() -> None: ...


CYCLE: list[Any] = []
CYCLE.append(CYCLE)


@pytest.mark.parametrize(
    ("result", "said"),
    [
        (Opaque(), "an object of type Opaque, no JSON: "),
        (b"\xff", "an object of type bytes, no JSON: "),
        (CYCLE, "an object of type list, no JSON: "),
        ({"a": Opaque()}, "an object of type dict, no JSON: "),
    ],
)
def test_a_result_that_no_json_can_say_is_named_with_its_tool(box: dict[str, Tool], result: Any, said: str) -> None:
    with pytest.raises(RolloutError) as caught:
        box["nothing"].write(result)
    assert re.match(rf"the tool nothing \(test_tools\.py:\d+\) returned {said}", caught.value.message)
    assert (caught.value.kind, caught.value.retryable) == ("resources", False)


def test_a_coroutine_that_a_tool_returned_is_called_that(box: dict[str, Tool]) -> None:
    with pytest.raises(RolloutError, match="returned a coroutine that it did not await$"):
        box["nothing"].write(_late())


def test_a_tool_has_named_parameters_only() -> None:
    class Greedy:
        @tool
        async def look(self, *places: str) -> None: ...

    with pytest.raises(UserError, match=r"^Greedy\.look \(test_tools\.py:\d+\): .* not \*places$"):
        collect_tools(Greedy())


def test_a_tool_that_no_call_could_reach_is_refused_at_the_start() -> None:
    class Bare:
        @tool
        async def look() -> None: ...  # type: ignore[misc]

    class Placed:
        @tool
        async def look(self, place: str, /) -> None: ...

    with pytest.raises(UserError, match=r"^Bare\.look \(test_tools\.py:\d+\): .* has no `self`"):
        collect_tools(Bare())
    with pytest.raises(UserError, match=r"^Placed\.look \(test_tools\.py:\d+\): .* not `place: .*, /`"):
        collect_tools(Placed())


def test_a_name_that_models_cannot_read_is_not_said_to_be_the_contracts() -> None:
    class Accented:
        @tool
        async def été(self) -> None: ...

    with pytest.raises(UserError, match=r"^Accented\.été \(test_tools\.py:\d+\) cannot be a tool: models read"):
        collect_tools(Accented())


def test_a_tool_with_an_argument_of_no_type_is_not_strict() -> None:
    class Loose:
        @tool
        async def look(self, place) -> None: ...  # type: ignore[no-untyped-def]

    assert collect_tools(Loose())["look"].schema()["strict"] is False


@pytest.mark.parametrize(
    ("result", "json"),
    [
        ("text", b'"text"'),
        (None, b"null"),
        (Place(city="Rome"), b'{"city":"Rome","zip_code":null}'),
        ([Place(city="Rome", zip_code=1)], b'[{"city":"Rome","zip_code":1}]'),
        ({1: {"a"}}, b'{"1":["a"]}'),
        (Colour.RED, b'"red"'),
        (2**70, b"1180591620717411303424"),
        ({"n": [2**70]}, b'{"n":[1180591620717411303424]}'),
    ],
)
def test_any_result_becomes_json(result: Any, json: bytes) -> None:
    assert result_to_json(result) == json
    orjson.loads(json)

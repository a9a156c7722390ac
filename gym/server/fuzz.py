"""For the tests of a verifier: whatever a model and a data set may hold, it gives a reward or names the bad field.

Needs hypothesis, which servers do not install: import this in tests only.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import orjson
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gym.server.asgi import HotRoutes
from gym.server.base import ServerApp
from gym.server.testing import ScriptedJudge, scripted_judge
from gym.wire.items import function_call, message, reasoning, response

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=12)
)
ANYTHING = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=6,
)
ANSWERS = (
    *("", "yes", "Answer: B", "**Answer:** A or B", "Final Answer: [a, b]", "```json\n{}\n```", "```python\n"),
    *(r"\boxed{A}", r"\boxed{", r"\boxed{\frac{1}{2}}", "<think>hm</think> 4", "</think>", '{"answer": null}', "[[1]]"),
)
DOCUMENTS = (  # of five formats, half of them broken: texts for servers that parse an answer
    *("{", "[1]", '{"a": 1}', "{}}", "- a\n- *b", "a: &a [*a]", "<a/>", "<a>1</a></b>"),
    *("a = 1", "a,b\n1,2", "```", "ü"),
)


def fuzz_verify(
    app: ServerApp,
    rows: Sequence[Mapping[str, Any]],
    *,
    texts: Sequence[str] = (),
    tools: Sequence[str] = ("verify",),
    values: Mapping[str, st.SearchStrategy[Any]] | None = None,
    examples: int = 150,
    judge: str = "",
    fields: Mapping[str, Any] | None = None,
) -> None:
    """Asks /verify over and over. `texts` and `tools` are worth trying as answers and calls, `values` as row fields.

    `judge` is what a judge says to everything, and `fields` then the rest of the app's configuration.
    """
    with asyncio.Runner() as runner, ExitStack() as stack:
        if judge:
            scripted = stack.enter_context(_judge_on(runner, judge))
            app = app.configured({**(fields or {}), **scripted.fields}, document=scripted.document)
        hot = runner.run(app.start())

        @given(
            row=st.sampled_from(list(rows)),
            fields=_changed_fields(rows[0], values or {}),
            output=st.lists(_items(texts, tools), max_size=4),
        )
        @settings(
            max_examples=examples,
            deadline=None,
            derandomize=True,
            database=None,
            suppress_health_check=[HealthCheck.too_slow],  # a busy machine is not a fault of the verifier's
        )
        def holds(row: dict[str, Any], fields: dict[str, Any], output: list[dict[str, Any]]) -> None:
            body = row | fields | {"response": response(output, model="m")}
            status, reply = runner.run(ask(hot, json.dumps(body).encode()))
            if status == 200:
                assert type(reply["reward"]) is float, reply
            else:
                assert status == 422, reply
                assert reply["error"]["kind"] == "row", reply

        try:
            holds()
        finally:
            runner.run(app.stop())


@contextmanager
def _judge_on(runner: asyncio.Runner, text: str) -> Iterator[ScriptedJudge]:
    context = scripted_judge()
    judge = runner.run(context.__aenter__())
    judge.answer = lambda _: text
    try:
        yield judge
    finally:
        runner.run(context.__aexit__(None, None, None))


async def ask(hot: HotRoutes, body: bytes, path: str = "/verify") -> tuple[int, Any]:
    """Through the same boundary as over HTTP, without the socket."""
    sent: list[Any] = []
    requests = [{"type": "http.request", "body": body}]

    async def receive() -> dict[str, Any]:
        if not requests:
            await asyncio.Event().wait()  # a caller that stays
        return requests.pop()

    async def send(part: Any) -> None:
        sent.append(part)

    await hot({"type": "http", "method": "POST", "path": path, "headers": []}, receive, send)
    return sent[0]["status"], orjson.loads(sent[1]["body"])


def _items(texts: Sequence[str], tools: Sequence[str]) -> st.SearchStrategy[dict[str, Any]]:
    names = st.sampled_from(list(tools))
    said = st.text(max_size=40) | st.sampled_from([*ANSWERS, *texts])
    arguments = st.text(max_size=20) | ANYTHING.map(json.dumps)
    keys = st.sampled_from(["type", "role", "name", "content", "arguments"])
    return (
        said.map(message)
        | st.lists(said, min_size=2, max_size=3).map("\n".join).map(message)
        | said.map(reasoning)
        | st.builds(function_call, names, arguments)
        | st.dictionaries(keys, ANYTHING, max_size=4)
        | st.fixed_dictionaries({"type": st.just("function_call"), "name": names | ANYTHING, "arguments": ANYTHING})
        | st.fixed_dictionaries({"type": st.just("message"), "role": st.just("assistant"), "content": ANYTHING})
    )


def _changed_fields(
    row: Mapping[str, Any], values: Mapping[str, st.SearchStrategy[Any]]
) -> st.SearchStrategy[dict[str, Any]]:
    """Up to two of a row's own fields, replaced by anything, or by what is worth trying there."""
    own = sorted({*row, *values} - {"responses_create_params", "agent_ref"})
    pairs = st.sampled_from(own).flatmap(
        lambda key: st.tuples(st.just(key), values[key] | ANYTHING if key in values else ANYTHING)
    )
    return st.lists(pairs, max_size=2).map(dict)

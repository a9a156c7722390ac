"""A policy server in a trainer's process. The model here is a stand-in that counts; a real one: tests/trainers."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from gym.http.pool import HttpClient
from gym.server.provider_replies import is_overflow
from gym.trainers.policy_server import PolicyServer
from gym.wire.token_ids import read_tokens

END, LONGEST, FATAL = 1, 12, 9


class Grid(list[list[Any]]):
    """As much of a tensor as the server touches."""

    @property
    def shape(self) -> tuple[int, int]:
        return len(self), len(self[0])

    def __getitem__(self, place: Any) -> Any:
        return Grid(row[place[1]] for row in self) if isinstance(place, tuple) else super().__getitem__(place)

    def tolist(self) -> list[list[Any]]:
        return list(self)


class Padded(dict[str, Grid]):
    def to(self, device: str) -> Padded:
        return self


class Letters:
    """A tokenizer: one id a letter."""

    eos_token_id = pad_token_id = END

    def apply_chat_template(self, messages: list[dict[str, str]], **_: Any) -> str:
        return "".join(one["content"] for one in messages)

    def __call__(self, text: str, **_: Any) -> dict[str, list[int]]:
        return {"input_ids": [ord(letter) for letter in text]}

    def pad(self, given: dict[str, list[list[int]]], **_: Any) -> Padded:
        rows = given["input_ids"]
        width = max(map(len, rows))
        ids = Grid([END] * (width - len(row)) + row for row in rows)
        return Padded(input_ids=ids, attention_mask=Grid([int(one != END) for one in row] for row in ids))

    def decode(self, ids: list[int], **_: Any) -> str:
        return "".join(chr(one) for one in ids if one != END)


class Model:
    """Says the last letter of its prompt again and again, and ends after two where that is an E."""

    device = "cpu"

    def __init__(self) -> None:
        self.config = type("Config", (), {"max_position_embeddings": LONGEST})
        self.generation_config = type("Config", (), {"eos_token_id": None})
        self.training = True
        self.calls: list[dict[str, Any]] = []
        self.go, self.asked = threading.Event(), threading.Event()
        self.go.set()

    def eval(self) -> None:
        self.training = False

    def train(self, mode: bool) -> None:
        self.training = mode

    def generate(self, input_ids: Grid, max_new_tokens: int, **options: Any) -> Any:
        self.calls.append({"rows": len(input_ids), "training": self.training, "most": max_new_tokens, **options})
        self.asked.set()
        assert self.go.wait(30)
        if max_new_tokens == FATAL:
            raise RuntimeError("out of memory")
        made = Grid(row + _say(row[-1], max_new_tokens) for row in input_ids)
        return type("Made", (), {"sequences": made, "scores": max_new_tokens})

    def compute_transition_scores(self, sequences: Grid, scores: int, **_: Any) -> Grid:
        return Grid([-float(place) for place in range(scores)] for _ in sequences)


def _say(last: int, most: int) -> list[int]:
    return ([last, last] + [END] * most)[:most] if last == ord("E") else [last] * most


@pytest.fixture
def server() -> Iterator[PolicyServer]:
    made = PolicyServer()
    yield made
    made.close()


async def ask(fields: dict[str, str], text: str, *, key: str = "", path: str = "", **more: Any) -> tuple[int, Any]:
    http = HttpClient()
    body = json.dumps({"messages": [{"role": "user", "content": text}], "model": "policy", **more}).encode()
    headers = [(b"authorization", f"Bearer {key or fields['policy_api_key']}".encode())]
    url = fields["policy_base_url"] + (path or "/chat/completions")
    reply = await http.request("POST", url, body=body, headers=headers, timeout=30)
    await http.aclose()
    return reply.status, json.loads(reply.body)


async def test_a_reply_has_the_ids_and_log_probs_in_a_form_that_the_stack_reads(server: PolicyServer) -> None:
    model = Model()
    with server.serving(model, Letters()) as fields:
        status, reply = await ask(fields, "ab", max_tokens=3, temperature=0.5)
        tokens = read_tokens(reply)
        assert (status, tokens.prompt, tokens.generation) == (200, [97, 98], [98, 98, 98])
        assert tokens.log_probs == [0.0, -1.0, -2.0]
        assert (reply["choices"][0]["message"]["content"], reply["choices"][0]["finish_reason"]) == ("bbb", "length")
        _, ended = await ask(fields, "bE", max_tokens=5)
        assert read_tokens(ended).generation == [69, 69, END]
        assert (ended["choices"][0]["message"]["content"], ended["choices"][0]["finish_reason"]) == ("EE", "stop")
    assert model.calls[0]["temperature"] == 0.5
    assert [one["training"] for one in model.calls] == [False, False]
    assert model.training


async def test_what_comes_together_is_generated_together_and_each_gets_its_own(server: PolicyServer) -> None:
    model = Model()
    model.go.clear()
    with server.serving(model, Letters()) as fields:
        async with asyncio.TaskGroup() as group:
            first = group.create_task(ask(fields, "z", max_tokens=1))
            await asyncio.to_thread(model.asked.wait, 30)
            alike = [group.create_task(ask(fields, "x" * n, max_tokens=n)) for n in range(1, 5)]
            other = group.create_task(ask(fields, "y", max_tokens=1, temperature=0.3))
            while len(server._waiting) < 5:
                await asyncio.sleep(0.01)
            model.go.set()
        assert [read_tokens(task.result()[1]).generation for task in alike] == [[120] * n for n in range(1, 5)]
        assert (first.result()[0], read_tokens(other.result()[1]).generation) == (200, [121])
    assert sorted(one["rows"] for one in model.calls) == [1, 1, 4]


async def test_a_prompt_that_fills_the_model_is_refused_as_one_that_leaves_no_room(server: PolicyServer) -> None:
    with server.serving(Model(), Letters()) as fields:
        status, refused = await ask(fields, "a" * LONGEST)
        assert (status, is_overflow(refused["error"]["message"])) == (400, True)
        _, reply = await ask(fields, "a" * (LONGEST - 2), max_tokens=50)
        assert len(read_tokens(reply).generation) == 2


@pytest.mark.parametrize(
    ("more", "status"),
    [({"key": "wrong"}, 401), ({"path": "/completions"}, 404), ({"tools": [{}]}, 400), ({"stream": True}, 400)],
)
async def test_what_it_cannot_do_is_refused(server: PolicyServer, more: dict[str, Any], status: int) -> None:
    with server.serving(Model(), Letters()) as fields:
        assert (await ask(fields, "a", **more))[0] == status


async def test_it_answers_only_while_a_model_is_served(server: PolicyServer) -> None:
    with server.serving(Model(), Letters()) as fields:
        pass
    assert (await ask(fields, "a"))[0] == 503
    with server.serving(Model(), Letters()):
        assert (await ask(fields, "a", max_tokens=1))[0] == 200


async def test_a_failure_of_the_model_reaches_all_who_wait_and_may_be_retried(server: PolicyServer) -> None:
    model = Model()
    with server.serving(model, Letters()) as fields:
        replies = await asyncio.gather(*(ask(fields, "a", max_tokens=FATAL) for _ in range(3)))
        assert {status for status, _ in replies} <= {500, 503}
        assert all("the model failed" in body["error"]["message"] for _, body in replies)
        assert model.training
        assert (await ask(fields, "a", max_tokens=1))[0] == 200


async def test_the_weights_are_given_back_when_nothing_is_generated_any_more(server: PolicyServer) -> None:
    model = Model()
    model.go.clear()
    left = threading.Event()

    def serve_and_leave(replies: list[dict[str, str]], served: threading.Event, leave: threading.Event) -> None:
        with server.serving(model, Letters()) as fields:
            replies.append(fields)
            served.set()
            leave.wait(30)
        left.set()

    replies: list[dict[str, str]] = []
    served, leave = threading.Event(), threading.Event()
    trainer = threading.Thread(target=serve_and_leave, args=(replies, served, leave))
    trainer.start()
    assert served.wait(30)
    asked = asyncio.create_task(ask(replies[0], "a", max_tokens=1))
    await asyncio.to_thread(model.asked.wait, 30)
    leave.set()
    assert not await asyncio.to_thread(left.wait, 0.2)
    model.go.set()
    await asyncio.to_thread(trainer.join, 30)
    assert left.is_set()
    assert (await asked)[0] == 200

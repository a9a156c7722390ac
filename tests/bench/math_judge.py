"""How many answers math_with_judge verifies in a second, over HTTP, while some of them never end.

    .venv/bin/python tests/bench/math_judge.py [--verifies 2000] [--endless 8] [--workers 4]

The baseline is the same comparison in this process, one after another, where nothing could kill it.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import statistics
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import uvloop

from gym.server.in_workers import symbolic
from gym.server.mathematics import without_delimiters
from gym.server.serve import load_app
from gym.server.testing import Caller, running
from gym.wire.items import message, response

FOLDER = Path(__file__).parents[2] / "servers" / "resources" / "math_with_judge"
ENDLESS = r"\boxed{9^{9^{9^{9}}}}"
AT_ONCE = 32
LIMIT = 2.0  # CPU seconds until an endless answer is killed


def make_requests(verifies: int) -> list[dict[str, Any]]:
    """No two alike, for sympy remembers what it has seen. Half of the answers are right."""
    dice = random.Random(3)
    return [make_request(*dice.choice(KINDS)(dice), right=number % 2 == 0) for number in range(verifies)]


def make_request(expected: str, equal: str, other: str, *, right: bool) -> dict[str, Any]:
    answer = message(f"It follows that the result is \\boxed{{{equal if right else other}}}.")
    asked = {"question": "?", "expected_answer": expected, "responses_create_params": {"input": []}}
    return {**asked, "response": response([answer], model="m")}


def fraction(dice: random.Random) -> tuple[str, str, str]:
    top, bottom, times = dice.randint(1, 999), dice.randint(2, 999), dice.randint(2, 9)
    return rf"\frac{{{top}}}{{{bottom}}}", rf"\frac{{{top * times}}}{{{bottom * times}}}", f"{top}"


def root(dice: random.Random) -> tuple[str, str, str]:
    outer, inner = dice.randint(2, 40), dice.choice((2, 3, 5, 6, 7, 10))
    return rf"\sqrt{{{outer * outer * inner}}}", rf"{outer}\sqrt{{{inner}}}", rf"{outer + 1}\sqrt{{{inner}}}"


def product(dice: random.Random) -> tuple[str, str, str]:
    one, two = dice.randint(1, 60), dice.randint(1, 60)
    return f"x^2 + {one + two}x + {one * two}", f"(x + {one})(x + {two})", f"(x + {one})(x - {two})"


def pair(dice: random.Random) -> tuple[str, str, str]:
    one, two = dice.randint(-99, 99), dice.randint(-99, 99)
    return f"({one}, {two})", rf"\left({one}, {two}\right)", f"({two}, {one + 1})"


def number(dice: random.Random) -> tuple[str, str, str]:
    value = dice.randint(100, 99_999)
    return str(value), f"{value}.0", str(value + 1)


KINDS = (fraction, root, product, pair, number)


def answer_of(request: dict[str, Any]) -> str:
    text: str = request["response"]["output"][0]["content"][0]["text"]
    return text


def time_baseline(requests: list[dict[str, Any]]) -> float:
    """Comparisons a second."""
    pairs = [(without_delimiters(one["expected_answer"]), answer_of(one)) for one in requests]
    symbolic.compare("1", r"\boxed{2}")
    began = time.perf_counter()
    for expected, answer in pairs:
        symbolic.compare(expected, answer)
    return len(pairs) / (time.perf_counter() - began)


async def time_server(url: str, requests: list[dict[str, Any]]) -> tuple[float, list[float], Counter[str]]:
    """Verifies a second, the seconds of each, and what came of them."""
    seconds: list[float] = []
    outcomes: Counter[str] = Counter()
    waiting = iter(requests)

    async def ask() -> None:
        async with Caller(url) as caller:
            for request in waiting:
                began = time.perf_counter()
                answered = await caller.post("/verify", request)
                seconds.append(time.perf_counter() - began)
                body = answered.body
                outcomes["reward" if answered.status == 200 else str(body["error"]["kind"])] += 1

    began = time.perf_counter()
    async with asyncio.TaskGroup() as group:
        for _ in range(AT_ONCE):
            group.create_task(ask())
    return len(requests) / (time.perf_counter() - began), seconds, outcomes


async def main(verifies: int, endless: int, workers: int) -> None:
    requests = make_requests(verifies)
    baseline = time_baseline(requests[:500])
    print(f"in this process, one after another: {baseline:.0f}/s")
    fields = {
        "should_use_judge": False,
        "library_verifier_max_concurrency": workers,
        "library_verifier_timeout_seconds": LIMIT,
    }
    hanging = {**requests[0], "response": response([message(ENDLESS)], model="m")}
    step = max(1, len(requests) // max(endless, 1))
    mixed = [one for at in range(0, len(requests), step) for one in (hanging, *requests[at : at + step])]
    for what, some in (("", requests), (f", {mixed.count(hanging)} of them endless", mixed)):
        async with running(load_app(FOLDER / "app.py").configured(fields)) as url:
            await time_server(url, make_requests(AT_ONCE))
            rate, seconds, outcomes = await time_server(url, some)
        p99 = statistics.quantiles(seconds, n=100)[98]
        print(f"over HTTP, {workers} workers, {AT_ONCE} at once{what}: {rate:.0f}/s, ratio {rate / baseline:.2f},")
        print(f"  p99 {p99 * 1e3:.0f} ms, {dict(outcomes)}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--verifies", type=int, default=2000)
    parser.add_argument("--endless", type=int, default=8)
    parser.add_argument("--workers", type=int, default=4)
    options = parser.parse_args()
    sys.path.insert(0, str(FOLDER))
    uvloop.run(main(options.verifies, options.endless, options.workers))

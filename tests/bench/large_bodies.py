"""CPU of each hop for bodies with 100,000 token ids and log-probs, and with an image: of a stack with real servers.

    nice .venv/bin/python -m tests.bench.large_bodies [--ids 100000] [--image 1000000] [--rollouts 40]

`moved` is what a hop reads and writes. Beside it stands what a server costs that reads and writes as much and does
nothing else (`echo`), and one `orjson.loads` of the same body, both of the same run. `above` is what a hop takes beyond
the echoes and what it takes for a small body; the goal is 1.2 ms where the hop does not look at them. The collector
does: it checks that they add up, and that it writes down JSON.
"""

from __future__ import annotations

import argparse
import base64
import random
import time
from pathlib import Path

import orjson
import uvloop

from gym.http.pool import HttpClient
from tests.bench.large_endpoint import message, tokens
from tests.bench.served_process import cpu_seconds, served
from tests.bench.stack_cost import Cost, Stack, load, stack

ECHO = Path(__file__).with_name("echo_server")
GOAL = 1.2


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ids", type=int, default=100_000)
    parser.add_argument("--image", type=int, default=1_000_000)
    parser.add_argument("--rollouts", type=int, default=40)
    options = parser.parse_args()
    item = {**message(400), **tokens(options.ids)}
    body = orjson.dumps({"response": {"output": [item]}})
    with stack("mcqa") as one:
        small = collect(one, write_rows(one.folder, 300), 200)
        rows = write_rows(one.folder, options.image)
        image = collect(one, rows, options.rollouts)
        show(f"an image of {options.image:,} bytes in the row", rows.read_bytes(), image, small, (1.0, 2.5, 1.5, 0.5))
    with stack("mcqa", ids=options.ids) as one:
        large = collect(one, write_rows(one.folder, 300), options.rollouts)
        label = f"{options.ids:,} ids of the prompt, ids and log-probs of the answer"
        show(label, body, large, small, (1.0, 2.0, 1.0, 0.5))


def collect(one: Stack, rows: Path, rollouts: int) -> Cost:
    for repeats in (5, rollouts):
        cost = one.collect(repeats, concurrency=2, rows=rows, per_row=1, agent="mcqa_simple_agent")
    return cost


def write_rows(folder: Path, size: int) -> Path:
    image = base64.b64encode(random.Random(1).randbytes(size * 3 // 4)).decode()
    seen = {"type": "input_image", "image_url": f"data:image/png;base64,{image}", "detail": "auto"}
    asked = [{"role": "user", "content": [{"type": "input_text", "text": "Which one is it?"}, seen]}]
    options = [{"A": "a cat"}, {"B": "a dog"}]
    row = {"responses_create_params": {"input": asked}, "expected_answer": "A", "options": options}
    path = folder / "rows.jsonl"
    path.write_bytes(orjson.dumps(row) + b"\n")
    return path


def show(label: str, body: bytes, large: Cost, small: Cost, times: tuple[float, ...]) -> None:
    """`times`: how often each hop reads and writes it, in echoes. A row goes to the seed too."""
    with served(ECHO, {"GYM_NAME": "echo"}) as (pid, url):
        echo = uvloop.run(echo_ms(url, pid, body))
    size = len(body) / 1e6
    print(f"{label}: {size:.2f} MB; {load()}")
    print(f"  echo of it {echo:.2f} ms CPU, orjson.loads of it {parse_ms(body):.2f} ms")
    hops = zip(("model", "agent", "resources", "collector"), large[:4], small[:4], times, strict=True)
    for hop, cpu, usual, echoes in hops:
        above = cpu - usual - echo * echoes
        verdict = "looks at them" if hop == "collector" else "met" if above <= GOAL else "MISSED"
        moved = f"{cpu:6.2f} ms (small: {usual:.2f}), {2 * echoes * size:5.1f} MB moved"
        print(f"  {hop:10} {moved}, {above:6.2f} ms above: {verdict}", flush=True)


async def echo_ms(url: str, pid: int, body: bytes, count: int = 60) -> float:
    http = HttpClient()
    before = 0.0
    for number in range(count + 5):
        if number == 5:
            before = cpu_seconds(pid)
        await http.request("POST", f"{url}/echo", body=body)
    await http.aclose()
    return (cpu_seconds(pid) - before) / count * 1e3


def parse_ms(body: bytes) -> float:
    best = 1e9
    for _ in range(7):
        begun = time.process_time()
        orjson.loads(body)
        best = min(best, time.process_time() - begun)
    return best * 1e3


if __name__ == "__main__":
    main()

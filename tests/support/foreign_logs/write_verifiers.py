# mypy: ignore-errors
"""Writes the small results that stand beside this file, with the real package: `pip install 'verifiers<0.2'`, run it.

    python write_verifiers.py FOLDER

Two examples, two rollouts each; the model is a server of this script, which calls a tool and is wrong half the time.
"""

from __future__ import annotations

import itertools
import json
import os
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import verifiers
from datasets import Dataset
from verifiers.types import ClientConfig

TURNS = itertools.count()


class Model(BaseHTTPRequestHandler):
    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        turn = next(TURNS)
        if body["messages"][-1]["role"] == "tool":
            message, reason = {"role": "assistant", "content": f"The sum is {3 + turn % 2}"}, "stop"
        else:
            function = {"name": "add", "arguments": json.dumps({"x": 1, "y": 2})}
            call = {"id": f"c{turn}", "type": "function", "function": function}
            message, reason = {"role": "assistant", "content": None, "tool_calls": [call]}, "tool_calls"
        choice = {"index": 0, "message": message, "finish_reason": reason}
        usage = {"prompt_tokens": 7, "completion_tokens": 5, "total_tokens": 12}
        reply = {
            "id": "r",
            "object": "chat.completion",
            "created": 1,
            "model": "mock",
            "choices": [choice],
            "usage": usage,
        }
        data = json.dumps(reply).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_):
        """Quiet."""


def add(x: int, y: int) -> int:
    """Adds two numbers."""
    return x + y


def right(completion, answer, **_):
    return 1.0 if answer in str(completion[-1]) else 0.0


def length(completion, **_):
    return float(len(completion))


def main() -> None:
    os.environ["MOCK_KEY"] = "x"
    server = ThreadingHTTPServer(("127.0.0.1", 0), Model)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    rows = [{"question": f"What is {a} + {b}?", "answer": f"sum is {c}"} for a, b, c in ((1, 2, 3), (2, 1, 4))]
    data = Dataset.from_list(rows)
    rubric = verifiers.Rubric(funcs=[right, length], weights=[1.0, 0.0])
    env = verifiers.ToolEnv(dataset=data, eval_dataset=data, tools=[add], system_prompt="Add.", rubric=rubric)
    client = ClientConfig(api_base_url=f"http://127.0.0.1:{server.server_port}/v1", api_key_var="MOCK_KEY")
    options = {"num_examples": 2, "rollouts_per_example": 2, "save_results": True, "max_concurrent": 1}
    env.evaluate_sync(client=client, model="mock", results_path=Path(sys.argv[1]), **options)


if __name__ == "__main__":
    main()

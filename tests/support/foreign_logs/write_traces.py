# mypy: ignore-errors
"""Writes the small traces.jsonl that stands beside this file, with the real package: `pip install 'verifiers==0.4.0'`.

    PYTHONPATH=servers/resources/verifiers python tests/support/foreign_logs/write_traces.py FOLDER

Two tasks, two rollouts each; the model is a server of this script, which uses the harness's tool and is right once.
"""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

TURNS = itertools.count()
RIGHT = itertools.cycle([1, 0])


class Model(BaseHTTPRequestHandler):
    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        if len(body["messages"]) > 30 or body["messages"][-1]["role"] == "tool":
            answer = "nettiktekcaj" if body["messages"][-1]["content"] and next(RIGHT) else "0"
            message, reason = {"role": "assistant", "content": f"\\boxed{{{answer}}}"}, "stop"
        else:
            function = {"name": body["tools"][0]["function"]["name"], "arguments": json.dumps({"command": "echo 0"})}
            call = {"index": 0, "id": "c1", "type": "function", "function": function}
            message, reason = {"role": "assistant", "content": "I look.", "tool_calls": [call]}, "tool_calls"
        about = {"id": "r", "object": "chat.completion.chunk", "created": 1, "model": "mock"}
        choice = {"index": 0, "delta": message, "finish_reason": reason}
        usage = {"prompt_tokens": 7, "completion_tokens": 5, "total_tokens": 12}
        events = [{**about, "choices": [choice]}, {**about, "choices": [], "usage": usage}]
        broken = next(TURNS) > 6  # the last rollout fails: its replies end before they are whole
        texts = [json.dumps(one) for one in events] + ([] if broken else ["[DONE]"])
        data = "".join(f"data: {text}\n\n" for text in texts).encode()[: 20 if broken else None]
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_):
        """Quiet."""


def main() -> None:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Model)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    program = Path(sys.executable).with_name("vf-eval")
    model = ("--client.base-url", f"http://127.0.0.1:{server.server_port}/v1", "--client.api-key-var", "MOCK_KEY")
    words = ("letters_and_sums", "-m", "mock", "-n", "2", "-r", "2", "-c", "1", "--no-push", "--clean", *model)
    options = ("--env.agent.runtime.type", "subprocess", "-o", sys.argv[1], "--run.dir", "sums", "--no-rich")
    subprocess.run((program, *words, *options), env={**os.environ, "MOCK_KEY": "x"}, check=True)


if __name__ == "__main__":
    main()

"""A tiny random `transformers` model behind vLLM's routes, run by a Python that has torch: real ids, real log-probs.

    python tests/support/tiny_vllm.py   # prints its port

Standard library, torch and transformers only. `form` in the address chooses how ids are given: /native/v1, /spelled/v1.
"""

from __future__ import annotations

import importlib
import json
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

TEMPLATE = (
    "{% for m in messages %}<|{{ m.role }}|>{% if m.reasoning_content %}<think>{{ m.reasoning_content }}</think>"
    "{% endif %}{{ m.content or '' }}<|end|>{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}"
)
MOST = 400  # one of 27 tokens is the end
MARKS = ["<|user|>", "<|assistant|>", "<|system|>", "<|tool|>", "<|end|>", "<think>", "</think>"]


def make_tokenizer() -> Any:
    """One token a byte, so that every text comes back as the same tokens; marks are tokens of their own."""
    tokenizers, transformers = importlib.import_module("tokenizers"), importlib.import_module("transformers")
    letters = sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {letter: number for number, letter in enumerate(letters)}
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE(vocab=vocabulary, merges=[]))
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = tokenizers.decoders.ByteLevel()
    tokenizer.add_tokens([tokenizers.AddedToken(mark, special=False) for mark in MARKS])
    fast = transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<|end|>", pad_token="<|end|>")
    fast.chat_template = TEMPLATE
    return fast


class Policy:
    def __init__(self) -> None:
        torch, transformers = importlib.import_module("torch"), importlib.import_module("transformers")
        torch.manual_seed(0)
        self.torch = torch
        self.tokenizer = make_tokenizer()
        sizes = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2}
        self.model = transformers.LlamaForCausalLM(
            transformers.LlamaConfig(vocab_size=len(self.tokenizer), **sizes)
        ).eval()
        self.end = self.tokenizer.eos_token_id
        # Only what is ASCII is generated: half a character of another kind would not come back as it was.
        plain = [self.tokenizer.convert_tokens_to_ids(letter) for letter in "abcdefghijklmnopqrstuvwxyz"]
        self.allowed = torch.tensor([*plain, self.end])

    def prompt(self, body: dict[str, Any]) -> list[int]:
        text = self.tokenizer.apply_chat_template(body["messages"], tokenize=False, add_generation_prompt=True)
        ids: list[int] = self.tokenizer(text, add_special_tokens=False)["input_ids"]
        return ids

    def generate(self, prompt: list[int], limit: int) -> tuple[list[int], list[float]]:
        torch, ids, log_probs = self.torch, list(prompt), []
        with torch.no_grad():
            while len(ids) - len(prompt) < limit:
                logits = self.model(torch.tensor([ids])).logits[0, -1, self.allowed]
                scores = torch.log_softmax(logits.float(), dim=-1)
                chosen = int(torch.multinomial(scores.exp(), 1))
                ids.append(int(self.allowed[chosen]))
                log_probs.append(float(scores[chosen]))
                if ids[-1] == self.end:
                    break
        return ids[len(prompt) :], log_probs

    def complete(self, body: dict[str, Any], form: str) -> dict[str, Any]:
        prompt = self.prompt(body)
        made, log_probs = self.generate(prompt, body.get("max_tokens") or MOST)
        ended = made[-1] == self.end
        text = self.tokenizer.decode(made[:-1] if ended else made)
        choice: dict[str, Any] = {
            "index": 0,
            "message": {"role": "assistant", "content": text},
            "finish_reason": "stop" if ended else "length",
        }
        names = [f"token_id:{one}" for one in made]
        pairs = zip(names, log_probs, strict=True)
        choice["logprobs"] = {"content": [{"token": name, "logprob": one} for name, one in pairs]}
        usage = {"prompt_tokens": len(prompt), "completion_tokens": len(made), "total_tokens": len(prompt) + len(made)}
        reply: dict[str, Any] = {
            "id": "c",
            "object": "chat.completion",
            "model": "tiny",
            "choices": [choice],
            "usage": usage,
        }
        if form == "native":
            reply["prompt_token_ids"], choice["token_ids"] = prompt, made
        return reply


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    policy: Policy

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        _, form, *rest = self.path.split("/")
        if rest == ["v1", "chat", "completions"]:
            self._say(200, self.policy.complete(body, form))
        elif rest == ["tokenize"]:
            self._say(200, {"tokens": self.policy.prompt(body)})
        elif rest == ["score"]:
            self._say(200, {"log_probs": score(self.policy, body["prompt"], body["generation"])})
        else:
            self._say(404, {"detail": "Not Found"})

    def log_message(self, format: str, *args: Any) -> None:
        return

    def _say(self, status: int, value: Any) -> None:
        data = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


def score(policy: Policy, prompt: list[int], generation: list[int]) -> list[float]:
    """What a trainer computes: the log-probs of these very ids, in one pass."""
    torch = policy.torch
    with torch.no_grad():
        logits = policy.model(torch.tensor([prompt + generation])).logits[0, len(prompt) - 1 : -1]
        scores = torch.log_softmax(logits[:, policy.allowed].float(), dim=-1)
    at = {int(one): place for place, one in enumerate(policy.allowed)}
    return [float(scores[place, at[one]]) for place, one in enumerate(generation)]


def main() -> None:
    Handler.policy = Policy()
    server = HTTPServer(("127.0.0.1", 0), Handler)
    sys.stdout.write(f"{server.server_port}\n")
    sys.stdout.flush()
    server.serve_forever()


if __name__ == "__main__":
    main()

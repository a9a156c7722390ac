"""A chat endpoint in front of a `transformers` model in this very process: token ids and log-probs as vLLM says them.

For trainers that hold the policy themselves. It answers only while a model is set, so no weight
changes in the middle of a reply. It speaks text: no tools, no streams.
"""

from __future__ import annotations

import json
import secrets
import threading
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final

from gym.wire.policy_endpoint import KEY, MODEL, URL

Json = dict[str, Any]

GATHER_SECONDS: Final = 0.01  # requests that come so close together are generated together
DIALS: Final = ("temperature", "top_p", "top_k", "min_p", "repetition_penalty")
FOREIGN: Final = ("tools", "stop", "stream")
PATH: Final = "/v1/chat/completions"


class ChatRefusal(Exception):
    """The reply instead of a completion."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


@dataclass(eq=False)
class WaitingChat:
    """A request that waits for its turn."""

    body: Json
    answer: Json | ChatRefusal | None = None

    @property
    def dials(self) -> Json:
        return {name: self.body[name] for name in DIALS if self.body.get(name) is not None}


class PolicyServer:
    """`with server.serving(model, tokenizer) as fields`: rows that have these fields are answered by that model."""

    def __init__(self, host: str = "127.0.0.1", port: int = 0, *, seen_as: str = "", batch: int = 256) -> None:
        """`seen_as`: what the stack calls this machine, where `host` is not it: host.docker.internal in containers."""
        self._batch = batch
        self._key = secrets.token_urlsafe(24)
        self._policy: LocalPolicy | None = None
        self._serving = threading.Lock()  # held while the policy generates or changes
        self._waiting: deque[WaitingChat] = deque()
        self._arriving = threading.Lock()
        self._turns = ThreadPoolExecutor(1, thread_name_prefix="gym-policy")
        self._server = _Server((host, port), type("Handler", (_Handler,), {"policy_server": self}))
        self.url = f"http://{seen_as or host}:{self._server.server_port}/v1"
        self._listener = threading.Thread(target=self._server.serve_forever, name="gym-policy-server", daemon=True)
        self._listener.start()

    @contextmanager
    def serving(self, model: Any, tokenizer: Any) -> Iterator[dict[str, str]]:
        """When it is over, nothing is being generated any more: the weights may change."""
        with self._serving:
            self._policy = LocalPolicy(model, tokenizer)
        try:
            yield {URL: self.url, KEY: self._key, MODEL: "policy"}
        finally:
            with self._serving:
                self._policy = None

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._listener.join()
        self._turns.shutdown()

    def check_key(self, authorization: str) -> None:
        if not secrets.compare_digest(authorization.encode(), f"Bearer {self._key}".encode()):
            raise ChatRefusal(401, "this is not the key of the rows that are served")

    def complete(self, body: Json) -> Json:
        if strange := [name for name in FOREIGN if body.get(name)]:
            raise ChatRefusal(
                400, f"the server of a model in a trainer's process knows no {', '.join(strange)}: use vLLM"
            )
        asked = WaitingChat(body)
        with self._arriving:  # so that turns come in the order of requests
            self._waiting.append(asked)
            turn = self._turns.submit(self._take_turn)
        if (error := turn.exception()) is not None:
            raise ChatRefusal(500, f"the model failed: {error!r}") from error
        if isinstance(asked.answer, dict):
            return asked.answer
        raise asked.answer or ChatRefusal(503, "its turn has not come")

    def _take_turn(self) -> None:
        """Answers the request that has waited longest, and those with it that are sampled alike."""
        if not self._waiting:
            return  # it was answered together with an earlier one
        time.sleep(GATHER_SECONDS)
        with self._serving:
            batch = self._next_batch()
            try:
                if self._policy is not None and batch:
                    self._policy.answer(batch)
            finally:
                for one in batch:
                    one.answer = one.answer or ChatRefusal(
                        503, "the model failed, or none is served here at the moment"
                    )

    def _next_batch(self) -> list[WaitingChat]:
        batch: list[WaitingChat] = []
        with self._arriving:
            alike = [one for one in self._waiting if one.dials == self._waiting[0].dials]
            batch = alike[: self._batch]
            self._waiting = deque(one for one in self._waiting if one not in batch)
        return batch


class LocalPolicy:
    """A model of `transformers` and its tokenizer, asked for many completions at once."""

    def __init__(self, model: Any, tokenizer: Any) -> None:
        self._model, self._tokenizer = model, tokenizer
        eos = model.generation_config.eos_token_id
        self._eos_ids = [tokenizer.eos_token_id] if eos is None else eos if isinstance(eos, list) else [eos]
        self._longest = int(model.config.max_position_embeddings)

    def answer(self, batch: Sequence[WaitingChat]) -> None:
        """Each gets an answer: a completion, or why there is none."""
        fitting: list[tuple[WaitingChat, list[int], int]] = []
        for asked in batch:
            prompt = self._read_prompt(asked.body)
            room = self._longest - len(prompt)
            if room < 1:
                what = f"This model's maximum context length is {self._longest} tokens"
                asked.answer = ChatRefusal(400, f"{what}, and the prompt alone has {len(prompt)}")
            else:
                fitting.append((asked, prompt, min(_limit(asked.body) or room, room)))
        if not fitting:
            return
        made = self._generate(
            [prompt for _, prompt, _ in fitting], max(max_tokens for _, _, max_tokens in fitting), batch[0].dials
        )
        for (asked, prompt, max_tokens), (ids, log_probs) in zip(fitting, made, strict=True):
            said = self._cut(ids[:max_tokens])
            asked.answer = self._describe(prompt, said, log_probs[: len(said)])

    def _read_prompt(self, body: Mapping[str, Any]) -> list[int]:
        text = self._tokenizer.apply_chat_template(body["messages"], tokenize=False, add_generation_prompt=True)
        ids: list[int] = self._tokenizer(text, add_special_tokens=False)["input_ids"]
        return ids

    def _generate(
        self, prompts: list[list[int]], max_tokens: int, dials: Json
    ) -> Iterator[tuple[list[int], list[float]]]:
        """The log-probs are those of the distribution that the tokens were drawn from."""
        given = self._tokenizer.pad({"input_ids": prompts}, padding_side="left", return_tensors="pt")
        given = given.to(self._model.device)
        sampled = {"do_sample": True, "top_k": 0, **dials} if dials.get("temperature") != 0 else {"do_sample": False}
        with _resting(self._model):
            made = self._model.generate(
                **{name: given[name] for name in ("input_ids", "attention_mask")},
                **sampled,
                max_new_tokens=max_tokens,
                eos_token_id=self._eos_ids,
                pad_token_id=self._tokenizer.pad_token_id,
                return_dict_in_generate=True,
                output_scores=True,
            )
        scores = self._model.compute_transition_scores(made.sequences, made.scores, normalize_logits=True)
        return zip(made.sequences[:, given["input_ids"].shape[1] :].tolist(), scores.tolist(), strict=True)

    def _cut(self, ids: list[int]) -> list[int]:
        """Up to its end; what comes after it is padding."""
        return ids[: next((place for place, one in enumerate(ids, 1) if one in self._eos_ids), len(ids))]

    def _describe(self, prompt: list[int], said: list[int], log_probs: list[float]) -> Json:
        ended = said[-1] in self._eos_ids
        text = self._tokenizer.decode(said, skip_special_tokens=True)
        pairs = zip(said, log_probs, strict=True)
        spelled = [{"token": f"token_id:{one}", "logprob": log_prob} for one, log_prob in pairs]
        choice = {
            "index": 0,
            "message": {"role": "assistant", "content": text},
            "finish_reason": "stop" if ended else "length",
            "token_ids": said,
            "logprobs": {"content": spelled},
        }
        sizes = {"prompt_tokens": len(prompt), "completion_tokens": len(said)}
        return {
            "id": f"chatcmpl-{secrets.token_hex(8)}",
            "object": "chat.completion",
            "created": int(time.time()),
            "model": "policy",
            "prompt_token_ids": prompt,
            "choices": [choice],
            "usage": {**sizes, "total_tokens": sum(sizes.values())},
        }


@contextmanager
def _resting(model: Any) -> Iterator[None]:
    """Not in training: no dropout."""
    was_training = model.training
    model.eval()
    try:
        yield
    finally:
        model.train(was_training)


def _limit(body: Mapping[str, Any]) -> int | None:
    return body.get("max_completion_tokens") or body.get("max_tokens")


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 1024


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    policy_server: PolicyServer

    def do_POST(self) -> None:
        data = self.rfile.read(int(self.headers.get("content-length", 0)))
        try:
            self.policy_server.check_key(self.headers.get("authorization", ""))
            if self.path != PATH:
                raise ChatRefusal(404, f"there is only {PATH}")
            self._say(200, self.policy_server.complete(json.loads(data)))
        except ChatRefusal as refusal:
            self._say(refusal.status, {"error": {"message": str(refusal), "code": refusal.status}})

    def log_message(self, format: str, *args: Any) -> None:
        return

    def _say(self, status: int, value: Json) -> None:
        data = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

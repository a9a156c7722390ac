"""Runs in an environment with AReaL: its episodes and its executor, with `gym.trainers.areal.GymWorkflow` in them.

`python -m tests.support.areal_program job.json found.json` speaks to a proxy server of AReaL that runs already and
imports `FixedText` from here, in the place of an inference engine. No GPU.
"""

# mypy: disable-error-code="import-not-found, misc"
from __future__ import annotations

import asyncio
import json
import logging
import sys
from pathlib import Path
from typing import Any

import requests
from areal.api import ModelRequest, ModelResponse
from areal.api.cli_args import AgentConfig, InferenceEngineConfig
from areal.experimental.openai import OpenAIProxyWorkflow
from areal.infra.remote_inf_engine import RemoteInfEngine
from areal.infra.rpc.serialization import serialize_value
from areal.infra.workflow_executor import WorkflowExecutor
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import WhitespaceSplit
from transformers import PreTrainedTokenizerFast

from gym.trainers.carried_rows import pack_row

Json = dict[str, Any]
WORKFLOW = "gym.trainers.areal.GymWorkflow"
ENGINE = "tests.support.areal_program.FixedText"
TEMPLATE = "{% for one in messages %}{{ one.role }} {{ one.content }} {% endfor %}"
UNKNOWN, END = "<unknown>", "<end>"
SECONDS = 300.0


class FixedText:
    """One text for each prompt, with a log-prob of its own for each token; some calls fail, as `fail` names them."""

    def __init__(self, config: Any) -> None:
        self.config = config
        self.text = ""
        self.failing: list[bool] = []

    def initialize(self, text: str) -> None:
        self.text = text

    def fail(self, *coming: bool) -> None:
        self.failing = list(coming)

    def destroy(self) -> None: ...

    async def agenerate(self, request: ModelRequest) -> ModelResponse:
        if self.failing and self.failing.pop(0):
            raise ConnectionError("the engine is gone")
        said = request.tokenizer.encode(self.text) + [request.tokenizer.eos_token_id]
        return ModelResponse(
            input_tokens=request.input_ids,
            output_tokens=said,
            output_logprobs=[-0.25 * place for place in range(1, len(said) + 1)],
            output_versions=[0] * len(said),
            tokenizer=request.tokenizer,
        )


class ArealRun:
    """What AReaL's trainer and controller do around episodes."""

    def __init__(self, job: Json) -> None:
        self.job = job
        self.tokenizer = save_tokenizer(job["tokenizer"], [job["text"], *job["rows"]])
        self.data = [pack_row(row) for row in job["rows"]]
        self.post("create_engine", engine=ENGINE, init_kwargs=serialize_value({"config": self.config("inline")}))
        self.call("initialize", job["text"])

    def config(self, mode: str) -> Any:
        agent = AgentConfig(agent_cls_path=WORKFLOW, mode=mode, admin_api_key=self.job["admin_key"])
        return InferenceEngineConfig(tokenizer_path=self.job["tokenizer"], agent=agent, consumer_batch_size=16)

    def post(self, path: str, **body: Any) -> None:
        requests.post(f"{self.job['proxy']}/{path}", json=body, timeout=SECONDS).raise_for_status()

    def call(self, method: str, *args: Any) -> None:
        """A method of the proxy's engine."""
        self.post("call", method=method, args=list(args))

    def engine(self, mode: str) -> Any:
        engine = RemoteInfEngine(self.config(mode), backend=None)
        engine.logger = logging.getLogger("areal")
        return engine

    async def run_episodes(self, mode: str) -> Json:
        """Each row once, the first with a broken engine, and the first again."""
        engine = self.engine(mode)
        workflow = engine._resolve_workflow(WORKFLOW, {"url": self.job["stack"]}, proxy_addr=self.job["proxy"])
        assert type(workflow) is OpenAIProxyWorkflow
        found = [self.tell(await workflow.arun_episode(engine, one)) for one in self.data]
        self.call("fail", True)
        raised = ""
        try:
            await workflow.arun_episode(engine, self.data[0])
        except Exception as error:  # noqa: BLE001 (the test looks at it)
            raised = f"{type(error).__name__}: {error}"
        again = self.tell(await workflow.arun_episode(engine, self.data[0]))
        return {"episodes": found, "raised": raised, "again": again}

    def tell(self, interactions: Json) -> list[Json]:
        """Each with its tensors: what is said in it, and what of that is trained on."""
        return [{"reward": one.reward, **self.tell_tensors(one.to_tensor_dict())} for one in interactions.values()]

    def tell_tensors(self, tensors: Json) -> Json:
        ids, mask, log_probs = (tensors[name][0].tolist() for name in ("input_ids", "loss_mask", "logprobs"))
        said = [token for token, kept in zip(ids, mask, strict=True) if kept]
        return {
            "rewards": tensors["rewards"].tolist(),
            "text": self.tokenizer.decode(ids),
            "said": self.tokenizer.decode(said),
            "mask": mask,
            "log_probs": log_probs,
        }

    def run_groups(self) -> Json:
        """Two members of one row: with a sound engine, with one that fails for a member, and sound again."""
        engine = self.engine("inline")
        engine.workflow_executor = WorkflowExecutor(config=engine.config, inference_engine=engine)
        engine.workflow_executor.initialize(train_data_parallel_size=1)
        try:
            found = [self.run_group(engine, *failing) for failing in ((), (False, True), ())]
            stats = engine.workflow_executor.staleness_manager.get_stats()
        finally:
            engine.destroy()
        return {"groups": found, "accepted": stats.accepted, "rejected": stats.rejected}

    def run_group(self, engine: Any, *failing: bool) -> list[float] | None:
        self.call("fail", *failing)
        kwargs = {"url": self.job["stack"]}
        number = engine.submit(self.data[0], WORKFLOW, kwargs, group_size=2, proxy_addr=self.job["proxy"])
        found = engine.wait_for_task(number, timeout=SECONDS)
        return None if found is None else found["rewards"].tolist()


def save_tokenizer(folder: str, texts: list[Any]) -> Any:
    """One that has a token for each word of the texts."""
    words = sorted({word for text in texts for word in find_words(text)})
    vocabulary = {word: place for place, word in enumerate((UNKNOWN, END, *words))}
    words_to_ids = Tokenizer(WordLevel(vocabulary, unk_token=UNKNOWN))
    words_to_ids.pre_tokenizer = WhitespaceSplit()
    names = {"unk_token": UNKNOWN, "eos_token": END, "pad_token": END}
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=words_to_ids, chat_template=TEMPLATE, **names)
    tokenizer.save_pretrained(folder)
    return tokenizer


def find_words(text: Any) -> list[str]:
    if isinstance(text, str):
        return text.split()
    return [word for one in text["responses_create_params"]["input"] for part in one.values() for word in part.split()]


def main() -> None:
    run = ArealRun(json.loads(Path(sys.argv[1]).read_text()))
    found = {mode: asyncio.run(run.run_episodes(mode)) for mode in ("inline", "subproc")}
    Path(sys.argv[2]).write_text(json.dumps({**found, "groups": run.run_groups()}))


if __name__ == "__main__":
    main()

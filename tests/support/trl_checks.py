"""Runs under a Python that has TRL: a step with failed rollouts, and the log-probs of a policy server.

python tests/support/trl_checks.py step URL ROWS [LONGEST]  # one step of GRPO on rows of a stack, as JSON
python tests/support/trl_checks.py policy_server    # how far its log-probs are from the model's own
"""

from __future__ import annotations

import importlib
import json
import sys
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from gym.collect import AttemptOptions
from gym.trainers.policy_server import PolicyServer
from gym.trainers.trl import env_reward, make_rollout_func, read_prompts

TEXTS = ["a", "a b c d e f g h", "h g", "c c c c c"]


def make_policy() -> tuple[Any, Any]:
    """Of the example, with words of its own."""
    sys.path.insert(0, str(Path(__file__).parents[2] / "examples"))
    example = importlib.import_module("train_trl")
    importlib.import_module("transformers").set_seed(0)
    prompts = [{"prompt": json.dumps({"responses_create_params": {"input": [{"content": text}]}})} for text in TEXTS]
    tokenizer = example.make_tokenizer(prompts)
    return example.make_model(tokenizer), tokenizer


def step(url: str, rows: str, longest: str = "256") -> dict[str, Any]:
    """The weights move by plain gradient descent, so their change is the gradient. `longest`: tokens of a sequence."""
    torch, trl, datasets = (importlib.import_module(name) for name in ("torch", "trl", "datasets"))
    model, tokenizer = make_policy()
    model.config.max_position_embeddings = int(longest)
    before = torch.cat([one.detach().flatten().clone() for one in model.parameters()])
    server, prompts = PolicyServer(), read_prompts(rows)
    args = trl.GRPOConfig(
        max_steps=1,
        per_device_train_batch_size=4 * len(prompts),
        num_generations=4,
        learning_rate=1.0,
        optim="sgd",
        max_grad_norm=0.0,
        lr_scheduler_type="constant",
        shuffle_dataset=False,
        logging_steps=1,
        report_to="none",
        save_strategy="no",
        use_cpu=True,
        bf16=False,
        output_dir=str(Path(rows).parent / "out"),
    )
    options = AttemptOptions(max_attempts=2, backoff=0.01)
    trainer = trl.GRPOTrainer(
        model=model,
        processing_class=tokenizer,
        train_dataset=datasets.Dataset.from_list(prompts),
        rollout_func=make_rollout_func(url, policy_server=server, options=options),
        reward_funcs=env_reward,
        args=args,
    )
    trainer.train()
    server.close()
    after = torch.cat([one.detach().flatten() for one in trainer.model.parameters()])
    change = after - before
    logged = next(one for one in trainer.state.log_history if "reward" in one)
    norm = float(change.norm())
    kept = {name: logged[name] for name in ("reward", "env_failed", "loss")}
    return {**kept, "norm": norm, "direction": (change / norm).tolist() if norm else []}


def compare() -> dict[str, Any]:
    """Asked at once with prompts of several lengths, so that they are padded and generated together."""
    torch = importlib.import_module("torch")
    model, tokenizer = make_policy()
    server, temperature, worst = PolicyServer(), 0.7, 0.0
    with server.serving(model, tokenizer) as fields, ThreadPoolExecutor(16) as pool:
        replies = list(pool.map(lambda text: ask(fields, text, temperature), TEXTS * 4))
    server.close()
    for reply in replies:
        prompt, said = reply["prompt_token_ids"], reply["choices"][0]["token_ids"]
        with torch.no_grad():
            logits = model(torch.tensor([prompt + said])).logits[0, len(prompt) - 1 : -1]
        scores = torch.log_softmax(logits.float() / temperature, dim=-1)
        served = [one["logprob"] for one in reply["choices"][0]["logprobs"]["content"]]
        own = [float(scores[place, one]) for place, one in enumerate(said)]
        worst = max(worst, *(abs(one - other) for one, other in zip(served, own, strict=True)))
    lengths = sorted({len(reply["prompt_token_ids"]) for reply in replies})
    return {"replies": len(replies), "lengths": lengths, "worst": worst, "training": model.training}


def ask(fields: dict[str, str], text: str, temperature: float) -> Any:
    body = {"messages": [{"role": "user", "content": text}], "max_tokens": 8, "temperature": temperature}
    headers = {"authorization": f"Bearer {fields['policy_api_key']}", "content-type": "application/json"}
    url = f"{fields['policy_base_url']}/chat/completions"
    with urllib.request.urlopen(urllib.request.Request(url, json.dumps(body).encode(), headers), timeout=60) as reply:
        return json.loads(reply.read())


def main(what: str, *rest: str) -> None:
    found = compare() if what == "policy_server" else step(*rest)
    sys.stdout.write(f"{json.dumps(found)}\n")


if __name__ == "__main__":
    main(*sys.argv[1:])

"""GRPO with TRL on the rows of a running stack: a tiny random model learns five answers on the CPU, in two minutes.

    gym up mcqa --model vllm_model_for_training policy_base_url='[]' policy_api_key=none policy_model_name=policy
    pip install 'trl>=1.16' compose-gym
    python examples/train_trl.py http://127.0.0.1:11000 servers/resources/mcqa/data/example.jsonl

Nothing is downloaded: its tokenizer knows the words of the rows and four answers, each of which is one token.
"""

# ruff: noqa: T201
import json
import sys

from datasets import Dataset
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast, TrainerCallback, set_seed
from transformers.trainer_callback import PrinterCallback
from trl import GRPOConfig, GRPOTrainer

from gym.trainers.policy_server import PolicyServer
from gym.trainers.trl import env_reward, make_rollout_func, read_prompts

ANSWERS = [f"\\boxed{{{letter}}}" for letter in "ABCD"]
TEMPLATE = "{% for message in messages %}{{ message.content }} {% endfor %}<answer>"


def make_tokenizer(prompts):
    texts = [json.loads(one["prompt"])["responses_create_params"]["input"][-1]["content"] for one in prompts]
    words = sorted({word for text in texts for word in text.split()} - set(ANSWERS))
    vocabulary = {word: place for place, word in enumerate(["<end>", "<other>", "<answer>", *ANSWERS, *words])}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="<other>"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    marks = {"eos_token": "<end>", "pad_token": "<end>", "unk_token": "<other>"}
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, chat_template=TEMPLATE, **marks)


def make_model(tokenizer):
    sizes = {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4}
    ids = {"eos_token_id": tokenizer.eos_token_id, "pad_token_id": tokenizer.pad_token_id, "bos_token_id": None}
    return LlamaForCausalLM(LlamaConfig(vocab_size=len(tokenizer), max_position_embeddings=256, **sizes, **ids))


class PrintReward(TrainerCallback):
    def on_log(self, args, state, control, logs=None, **_):
        if "reward" in logs:
            print(f"step {state.global_step}: mean reward {logs['reward']:.3f}", flush=True)


def main(url, rows):
    set_seed(0)
    prompts = read_prompts(rows)
    tokenizer = make_tokenizer(prompts)
    server = PolicyServer()
    trainer = GRPOTrainer(
        model=make_model(tokenizer),
        processing_class=tokenizer,
        train_dataset=Dataset.from_list(prompts),
        rollout_func=make_rollout_func(url, policy_server=server),
        reward_funcs=env_reward,
        args=GRPOConfig(
            max_steps=60,
            per_device_train_batch_size=80,  # five rows, sixteen rollouts of each
            num_generations=16,
            max_completion_length=4,
            learning_rate=2e-3,
            lr_scheduler_type="constant",
            logging_steps=1,
            disable_tqdm=True,
            report_to="none",
            save_strategy="no",
            use_cpu=True,
            bf16=False,
            output_dir="out",
        ),
    )
    trainer.remove_callback(PrinterCallback)  # all of TRL's metrics
    trainer.add_callback(PrintReward)
    trainer.train()
    server.close()
    rewards = [one["reward"] for one in trainer.state.log_history if "reward" in one]
    print(f"first ten steps: {sum(rewards[:10]) / 10:.3f}, last ten: {sum(rewards[-10:]) / 10:.3f}")


if __name__ == "__main__":
    main(*sys.argv[1:])

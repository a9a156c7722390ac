"""A tokenizer of single bytes, written where the library can load it: it counts tokens before there are any.

The rollout's token ids are the policy's own, of its session. A longer count than the policy's only ends a game earlier.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

START, END = "<|im_start|>", "<|im_end|>"
TEMPLATE = (
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' }}{{ message['content'] or '' }}"
    "{{ '<|im_end|>\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)


def stand_in_tokenizer() -> str:
    """The folder that it is in."""
    folder = Path(tempfile.gettempdir()) / "gym-atropos-bytes"
    if not (folder / "tokenizer_config.json").is_file():
        written = Path(tempfile.mkdtemp())
        make_tokenizer().save_pretrained(written)
        folder.mkdir(exist_ok=True)
        for one in written.iterdir():
            one.replace(folder / one.name)
    return str(folder)


def make_tokenizer() -> PreTrainedTokenizerFast:
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    bare = Tokenizer(models.BPE(vocab={letter: place for place, letter in enumerate(letters)}, merges=[]))
    bare.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bare.decoder = decoders.ByteLevel()
    special = {"eos_token": END, "pad_token": END, "additional_special_tokens": [START]}
    return PreTrainedTokenizerFast(tokenizer_object=bare, chat_template=TEMPLATE, **special)

"""Puts token ids and log-probs onto a completion; where the reply lacks the prompt, `/tokenize` is asked for it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gym.server.upstream import Upstream
from gym.wire.token_ids import check_prompt, put_tokens, read_tokens

# Whatever of a chat request decides what the prompt is.
SHAPING = (
    *("model", "messages", "tools", "chat_template", "chat_template_kwargs", "mm_processor_kwargs", "documents"),
    *("add_generation_prompt", "continue_final_message", "add_special_tokens", "required_prefix_token_ids", "prompt"),
)


async def attach_tokens(
    upstream: Upstream, asked: Mapping[str, Any], completion: dict[str, Any], *, native: bool
) -> None:
    """Onto its message; absent or misaligned ones are a failure. `native` keeps the provider's own fields too."""
    tokens = read_tokens(completion)
    if tokens.prompt is None and isinstance(asked.get("prompt"), list):
        tokens = tokens._replace(prompt=asked["prompt"])
    elif tokens.prompt is None:
        body = {key: asked[key] for key in SHAPING if key in asked}
        reply = await upstream.post("/tokenize", body, root=True)
        tokens = tokens._replace(prompt=check_prompt(reply.get("tokens"), completion.get("usage")))
    put_tokens(completion, tokens, native=native)

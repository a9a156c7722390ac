"""`gym config`: the merged and checked configuration as the servers get it, secrets masked."""

from __future__ import annotations

from typing import Any

import yaml

from gym.cli import console
from gym.cli.options import AsJson, ConfigFiles, Items, ModelName, Replicas, Share, Strict
from gym.cli.stack_request import load_named
from gym.config import Instance, StackConfig, redact


def command(
    items: Items = None,
    model: ModelName = None,
    files: ConfigFiles = None,
    strict: Strict = False,
    share: Share = None,
    replicas: Replicas = None,
    as_json: AsJson = False,
) -> int:
    """Print the merged, checked configuration of servers, secrets masked."""
    stack = load_named(items, model=model, files=files, replicas=replicas, strict=strict, share=share)
    for notice in stack.notices:
        console.note(notice)
    tree = redact(_stack_to_tree(stack))
    if as_json:
        console.show_json(tree)
    else:
        console.show_raw(yaml.safe_dump(tree, sort_keys=False, allow_unicode=True, width=120))
    return 0


def _stack_to_tree(stack: StackConfig) -> dict[str, Any]:
    """The three-level form that was read, settings last."""
    return {one.name: {one.type: {one.implementation: _fields(one)}} for one in stack.instances} | stack.settings


def _fields(instance: Instance) -> dict[str, Any]:
    facts = instance.container.model_dump(mode="json", exclude_defaults=True)
    grant = {"sandbox": instance.sandbox.model_dump(mode="json", exclude_unset=True)} if instance.sandbox else {}
    return {"entrypoint": instance.entrypoint, **instance.fields, **facts, **grant}

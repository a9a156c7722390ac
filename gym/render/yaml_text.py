"""Documents as text: YAML that a person can read, JSON that every YAML reader reads the same way."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import partial
from typing import Any

import orjson
import yaml

from gym.config.plain_trees import change_texts

# What orjson leaves as it is and a YAML reader refuses (control characters) or folds into a space (line separators).
NOT_IN_YAML = re.compile("[^\t\n\r\x20-\x7e\xa0-\u2027\u202a-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]")

BREAKS = re.compile("[\x85\u2028\u2029]")
EXPONENT = re.compile(r"[-+]?[\d_.]+[eE][-+]?\d+")
INTERPOLATION = re.compile(r"(\\*)\$\{")


class _Dumper(yaml.SafeDumper):
    def ignore_aliases(self, data: Any) -> bool:
        return True

    def represent_text(self, text: str) -> yaml.ScalarNode:
        """PyYAML leaves line separators raw, where a reader folds them, and `1e3` bare, which OmegaConf makes 1000."""
        quotes = '"' if BREAKS.search(text) else "'" if EXPONENT.fullmatch(text) else None
        return self.represent_scalar("tag:yaml.org,2002:str", text, style=quotes)


_Dumper.add_representer(str, _Dumper.represent_text)


def to_yaml(document: Mapping[str, Any], comment: str = "") -> str:
    """Keys in the order of the document, no anchors."""
    body = yaml.dump(document, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=120)
    return f"# {comment}\n{body}" if comment else body


def to_json(document: Mapping[str, Any], *, indent: bool = False) -> str:
    """JSON that is YAML too: readers of NEMO_GYM_CONFIG_DICT expect the latter. One line, where a person reads none."""
    text = orjson.dumps(document, default=str, option=orjson.OPT_INDENT_2 if indent else None).decode()
    return NOT_IN_YAML.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def double_dollars(tree: Any) -> Any:
    """So that Docker takes every text as it is."""
    return change_texts(tree, lambda text: text.replace("$", "$$"))


def escape_interpolation(tree: Any) -> Any:
    """For readers that resolve `${...}`: what is left of it in a resolved tree is meant literally."""
    return change_texts(tree, partial(INTERPOLATION.sub, lambda found: found[1] * 2 + "\\${"))

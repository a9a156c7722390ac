"""Counts the tokens of a row's prompt: an estimate without a package, or a tokenizer that the user names."""

from __future__ import annotations

import difflib
import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, NamedTuple

from gym.data.byte_weights import weigh
from gym.errors import UserError
from gym.programs import install_command
from gym.wire.deep_values import write_cut

ESTIMATE: Final = "estimate"
# In fifths of a token, fitted to cl100k on the example rows of all servers: half of them within 6 %, nine of ten within
# 15 %. A word is usually one token, and begins at a blank; other marks and digits are less than one.
_FIFTHS: Final = bytes(
    6 if chr(one) == " " else 2 if one > 127 else 0 if chr(one).isalpha() else 3 for one in range(256)
)
_READ = frozenset({"content", "name", "arguments", "output"})  # of an item: what is text for the model


class Tokenizer(NamedTuple):
    name: str  # written beside the figures it made
    count: Callable[[str], int]


def open_tokenizer(name: str = ESTIMATE) -> Tokenizer:
    """`estimate`, the path of a tokenizer.json, or the name of a tiktoken encoding."""
    if name == ESTIMATE:
        return Tokenizer(name, estimate_tokens)
    if name.endswith(".json"):
        return _open_file(Path(name))
    return _open_encoding(name)


def estimate_tokens(text: str) -> int:
    raw = text.encode("utf-8", "surrogatepass")
    return 1 + round(weigh(raw, _FIFTHS) / 5) if raw else 0


def prompt_text(params: dict[str, Any]) -> str:
    """What a model reads of a row, without the marks of a chat template; tools as JSON."""
    given = params.get("input")
    parts: list[str] = []
    _add_text(params.get("instructions"), parts)
    if type(given) is list:
        for item in given:
            if type(item) is dict:
                for key, value in item.items():
                    if key in _READ:
                        _add_text(value, parts)
    else:
        _add_text(given, parts)
    if params.get("tools"):
        parts.append(write_cut(params["tools"]).decode())
    return parts[0] if len(parts) == 1 else "\n".join(parts)


def content_text(content: object) -> str:
    """The text of a message: a string, or a list of parts of which some have text."""
    if type(content) is str:
        return content
    parts: list[str] = []
    _add_text(content, parts)
    return "\n".join(parts)


def _add_text(content: object, parts: list[str]) -> None:
    if type(content) is str:
        parts.append(content)
    elif type(content) is list:
        parts += [one["text"] for one in content if type(one) is dict and type(one.get("text")) is str]


def _open_file(path: Path) -> Tokenizer:
    if not path.is_file():
        raise UserError(f"there is no tokenizer file {path}", "name a tokenizer.json, or leave --tokenizer out")
    package = _import("tokenizers", str(path))
    try:
        model: Any = package.Tokenizer.from_file(str(path))
    except Exception as error:  # noqa: BLE001 (the package raises bare Exception)
        raise UserError(f"{path} is not a tokenizer that the tokenizers package reads: {error}") from None
    return Tokenizer(path.name, lambda text: len(model.encode(text, add_special_tokens=False).ids))


def _open_encoding(name: str) -> Tokenizer:
    package = _import("tiktoken", name)
    names = package.list_encoding_names()
    if name not in names:
        near = difflib.get_close_matches(name, names, n=1)
        hint = f"did you mean {near[0]}?" if near else f"one of: {', '.join(names)}, or the path of a tokenizer.json"
        raise UserError(f"tiktoken has no encoding {name!r}", hint)
    try:
        encoding: Any = package.get_encoding(name)
    except Exception as error:  # noqa: BLE001 (whatever its download raises)
        raise UserError(
            f"the data of the encoding {name} is not here and could not be downloaded: {error}",
            "set TIKTOKEN_CACHE_DIR to a folder that has it, or leave --tokenizer out",
        ) from None
    return Tokenizer(name, lambda text: len(encoding.encode(text, disallowed_special=())))


def _import(package: str, wanted: str) -> Any:
    try:
        return importlib.import_module(package)
    except ImportError:
        raise UserError(
            f"--tokenizer {wanted} needs the package {package}, which is not installed here",
            f"{install_command(package)}; or leave --tokenizer out for an estimate",
        ) from None

"""Scores a structured answer by its code, its parse and its paths. The workers of the server import this."""

from __future__ import annotations

import codecs
import csv
import io
import warnings
from typing import Any

from gym.wire.documents import MAX_CHARACTERS, BadDocument, parse

KINDS = ("json", "yaml", "toml", "xml", "csv")
MAX_MESSAGE = 200
FENCE = "```"
BEGIN, END = "<|begin_code|>", "<|end_code|>"
RENDER_SHARE, KEYS_SHARE = 0.2, 0.8


def score(text: str, kind: str, paths: list[str], strict: bool) -> dict[str, Any]:
    kind = kind.lower()
    value, error_type, message = read(extract_code(text, decode=not strict), kind)
    wanted = [(path, tokens_of(path)) for path in paths]
    found = [path for path, tokens in wanted if not error_type and exists(value, tokens, filled=strict)]
    if strict and not found and not error_type:  # any line of prose is YAML, and a header of CSV
        error_type, message = "no_path", "It parses, and has none of the expected paths"
    rendered = float(not error_type)
    keys = len(found) / len(paths) if paths else 0.0
    return {
        "reward": round(RENDER_SHARE * rendered + KEYS_SHARE * keys, 2),
        "render_score": rendered,
        "key_validation_score": keys,
        "raw_output_score": mentioned(text, paths),
        "error_type": error_type or None,
        "error_message": message or None,
        "missing": [path for path in paths if path not in found],
    }


def extract_code(text: str, *, decode: bool) -> str:
    r"""The first fenced block; else what follows `<|BEGIN_CODE|>`; else the whole. Either may be left open.

    `decode` undoes escapes such as \n first, as the benchmark does, for better (a block on one line) or worse (`\"`).
    """
    text = text.replace("&lt;", "<").replace("&gt;", ">").replace("<think>\n\n</think>\n\n", "")
    if decode:
        text = undo_escapes(text)
    opened = text.find(FENCE)
    newline = text.find("\n", opened) if opened >= 0 else -1
    if newline >= 0:
        return text[newline + 1 :].partition(FENCE)[0].strip()
    lower = text.lower() if len(text.lower()) == len(text) else text
    opened = lower.find(BEGIN)
    if opened < 0:
        return text.strip()
    closed = lower.find(END, opened)
    return text[opened + len(BEGIN) : closed if closed >= 0 else None].strip()


def undo_escapes(text: str) -> str:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # "\d" is none, and stays
            return codecs.decode(text.encode("utf-8"), "unicode_escape")
    except (UnicodeError, ValueError):
        return text


def read(code: str, kind: str) -> tuple[Any, str, str]:
    """The value; or the kind of error and its message."""
    if kind not in KINDS:
        return None, "unsupported_type", f"Unsupported output type: {kind:.60}"
    try:
        value = read_table(code) if kind == "csv" else parse(kind, code)
    except Exception as error:  # noqa: BLE001 (whatever a parser says about a model's text)
        return None, "parse_error", f"{type(error).__name__}: {str(error)[:MAX_MESSAGE]}"
    return (value, "", "") if value else (None, "parse_error", "Parsed result is empty")


def read_table(code: str) -> dict[str, Any]:
    if len(code) > MAX_CHARACTERS:
        raise BadDocument(f"longer than {MAX_CHARACTERS:,} characters")
    reader = csv.DictReader(io.StringIO(code))
    return {"csv_headers": list(reader.fieldnames or ()), "csv_rows": list(reader)}


def mentioned(text: str, paths: list[str]) -> float:
    text = text.lower()
    return sum(path.lower() in text for path in paths) / len(paths) if paths else 0.0


def tokens_of(path: str) -> list[str]:
    """`a.b[0].*`: names, `[n]` and `*`; a name in backticks may hold dots and brackets."""
    if path.startswith("csv::"):
        return [path]
    tokens: list[str] = []
    name, quoted, at = "", False, 0
    while at < len(path):
        sign = path[at]
        end = at
        if sign == "`":
            quoted = not quoted
        elif quoted or sign not in ".[":
            name += sign
        else:
            tokens += [name] if name else []
            name = ""
            if sign == "[":
                end = path.find("]", at)
                if end < 0:
                    raise BadPath(f"{path!r:.100} opens a bracket that is not closed")
                tokens.append(path[at : end + 1])
        at = end + 1
    return tokens + ([name] if name else [])


class BadPath(ValueError):
    """A row's path that cannot be read."""


def exists(node: Any, tokens: list[str], *, filled: bool = False) -> bool:
    """`filled`: with something in it. A skeleton of names alone has nothing."""
    if not tokens:
        return not filled or is_filled(node)
    token, rest = tokens[0], tokens[1:]
    if token == "*":
        return isinstance(node, list) and any(exists(item, rest, filled=filled) for item in node)
    if token.startswith("[") and token.endswith("]"):
        index = int(token[1:-1]) if token[1:-1].strip().isdecimal() else -1
        return isinstance(node, list) and 0 <= index < len(node) and exists(node[index], rest, filled=filled)
    if not isinstance(node, dict):
        return False
    if "csv_headers" in node and token.startswith("csv::"):
        return not rest and has_column(node, token.removeprefix("csv::"), filled=filled)
    if token in node:
        return exists(node[token], rest, filled=filled)
    attribute = token.removeprefix("@")
    return attribute != token and attribute in node and exists(node[attribute], rest, filled=filled)


def has_column(table: dict[str, Any], name: str, *, filled: bool) -> bool:
    named = name in (table["csv_headers"] or ())
    return named and (not filled or any(is_filled(row.get(name)) for row in table["csv_rows"]))


def is_filled(value: Any) -> bool:
    """A letter or a digit somewhere inside; a number, a date and a yes or no are something."""
    if isinstance(value, dict):
        return any(is_filled(one) for one in value.values())
    if isinstance(value, list):
        return any(is_filled(one) for one in value)
    return value is not None and any(char.isalnum() for char in str(value))

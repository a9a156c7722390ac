"""Values as JSON, YAML, TOML, XML and CSV, as a careful writer of each would put them."""

from __future__ import annotations

import csv
import io
import json
from typing import Any
from xml.sax.saxutils import escape

import yaml


def write(kind: str, value: Any) -> str:
    if kind == "json":
        return json.dumps(value, ensure_ascii=False, indent=2)
    if kind == "yaml":
        text: str = yaml.safe_dump(value, sort_keys=False, allow_unicode=True)
        return text
    if kind == "toml":
        return "".join(f"{key} = {_toml(one)}\n" for key, one in value.items())
    if kind == "xml":
        return "".join(_xml(key, one) for key, one in value.items())
    return _csv(value)


def _toml(value: Any) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{key} = {_toml(one)}" for key, one in value.items()) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(map(_toml, value)) + "]"
    return json.dumps(value, ensure_ascii=False)  # the scalars of both are the same


def _xml(name: str, value: Any) -> str:
    if isinstance(value, dict):
        inner = "".join(_xml(key, one) for key, one in value.items())
    elif isinstance(value, list):
        inner = "".join(_xml("item", one) for one in value)
    else:
        inner = escape(str(value).lower() if isinstance(value, bool) else str(value))
    return f"<{name}>{inner}</{name}>"


def _csv(rows: list[dict[str, Any]]) -> str:
    out = io.StringIO()
    writer = csv.DictWriter(out, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    for row in rows:
        writer.writerow({key: str(one).lower() if isinstance(one, bool) else one for key, one in row.items()})
    return out.getvalue()

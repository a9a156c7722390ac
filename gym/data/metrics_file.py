"""`<stem>_metrics.json`: figures under a header that says of which data set; what an earlier one says otherwise."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from gym.config import path_variants
from gym.data.data_sets import DataSet, HubSource, RegistrySource
from gym.data.file_kinds import packed_suffix
from gym.data.statistics import EXAMPLES, Statistics
from gym.errors import UserError

ENDING: Final = "_metrics"
CONFLICT: Final = "_conflict"
_DROPPED = frozenset({"Median"})  # version 0.1 had it among the five figures
_ONLY_GIVEN = frozenset({"revision", "config_name"})


def metrics_path(rows: Path) -> Path:
    """Beside the rows: `train.jsonl` and `train.jsonl.gz` have `train_metrics.json`."""
    name = Path(rows.name.removesuffix(packed_suffix(rows.name)))
    return rows.with_name(f"{name.stem}{ENDING}.json")


def conflict_path(metrics: Path) -> Path:
    return metrics.with_name(f"{metrics.stem}{CONFLICT}.json")


def metrics_of(data: DataSet, statistics: Statistics) -> dict[str, Any]:
    return {**_header(data), **statistics.to_json()}


def metrics_text(metrics: Mapping[str, Any]) -> bytes:
    return json.dumps(metrics, indent=4).encode()


def read_metrics(path: Path) -> dict[str, Any] | None:
    """None where the file is about something else: rollouts of examples have metrics of that name too."""
    try:
        found = json.loads(path.read_bytes())
    except ValueError as error:
        raise UserError(f"{path} is not JSON: {error}", f"look at it, then remove it: rm {path}") from None
    return found if isinstance(found, dict) and EXAMPLES in found else None


def find_differences(old: Any, new: Any, path: str = "") -> list[str]:
    """What `old` says and `new` does not, a line for each; what `new` says beyond it is fine."""
    if isinstance(old, dict) and isinstance(new, dict):
        return [line for key in old for line in _key_differences(old, new, key, f"{path}.{key}" if path else key)]
    if isinstance(old, list) and isinstance(new, list):
        return [] if _same_items(old, new) else [f"{path}: was {_short(old)}, is {_short(new)}"]
    if isinstance(old, float) and isinstance(new, float):
        scale = max(abs(old), abs(new))
        same = abs(old - new) <= (0.005 if scale >= 1 else 0.0005) + 1e-9
    else:
        same = old == new or (path == "jsonl_fpath" and _same_place(old, new))
    return [] if same else [f"{path}: was {_short(old)}, is {_short(new)}"]


def _key_differences(old: dict[str, Any], new: dict[str, Any], key: str, path: str) -> list[str]:
    if key in new:
        return find_differences(old[key], new[key], path)
    if key in _DROPPED or old[key] is None:
        return []
    return [f"{path}: was {_short(old[key])}, is not there any more"]


def _same_items(old: list[Any], new: list[Any]) -> bool:
    """In any order."""
    if len(old) != len(new):
        return False
    try:
        return Counter(old) == Counter(new)
    except TypeError:
        left = list(new)
        for one in old:
            match = next((index for index, other in enumerate(left) if not find_differences(one, other)), None)
            if match is None:
                return False
            del left[match]
        return True


def _same_place(old: object, new: object) -> bool:
    """The same file, in the layout of either tree."""
    return isinstance(old, str) and isinstance(new, str) and bool({*path_variants(old)} & {*path_variants(new)})


def _short(value: object) -> str:
    text = json.dumps(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _header(data: DataSet) -> dict[str, Any]:
    """The block as the contract writes it, in its order; what is further in the block comes last."""
    hub, registry = data.huggingface_identifier, data.gitlab_identifier
    header = {
        "name": data.name,
        "type": data.type,
        "jsonl_fpath": data.jsonl_fpath,
        "num_repeats": data.num_repeats,
        "source": data.source.model_dump(exclude_none=True) if data.source else None,
        "gitlab_identifier": _older(registry) if registry else None,
        "huggingface_identifier": _older(hub) if hub else None,
        "license": data.license,
    }
    return header | {key: value for key in ("start_idx", "end_idx") if (value := getattr(data, key)) is not None}


def _older(source: HubSource | RegistrySource) -> dict[str, Any]:
    """Blocks under the older keys have no `type`; a revision or configuration only where one is given."""
    found = source.model_dump(exclude={"type"})
    return {key: value for key, value in found.items() if value is not None or key not in _ONLY_GIVEN}

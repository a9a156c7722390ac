"""Check, measure, collate, fetch and make data sets."""

from __future__ import annotations

from typing import Final

# word -> (module of gym.cli.data, the first line of its help). Its function is `command`, 40 lines at most.
commands: Final[dict[str, tuple[str, str]]] = {
    "prepare": ("prepare", "Check, measure and put together the data sets that servers list."),
    "sets": ("sets", "Show the data sets that servers list."),
    "validate": ("validate", "Check every line of data sets; exit code 1 where something is wrong."),
    "ls": ("ls", "List data sets, versions or files in a registry: gym data ls hf:ORG/NAME."),
    "download": (
        "download",
        "Download a file or a split; resumes after an interruption: gym data download hf:ORG/NAME --split train.",
    ),
    "upload": ("upload", "Upload a file of rows: gym data upload train.jsonl hf:ORG/NAME."),
    "rm": ("rm", "Remove a data set, a version or a file from a registry: gym data rm gitlab:NAME:0.0.1."),
    "render": (
        "render",
        "Put a prompt template onto rows: gym data render raw.jsonl --prompt prompt.yaml -o train.jsonl.",
    ),
    "split": ("split", "Split rows; those with the same user messages, or the same FIELD, stay together."),
    "sample": ("sample", "Take N random rows, in their order: gym data sample train.jsonl -n 100 -o some.jsonl."),
    "card": ("card", "Write a card with figures and plots: gym data card train.jsonl -o README.md."),
    "grow": ("grow", "Make rows: gym data grow graphwalks --rows 1000 --difficulty hard --split train -o train.jsonl."),
    "from": ("from_library", "Make rows of a library's tasks, or of a file of parquet, arrow, CSV or a JSON list."),
    "filter": (
        "filter",
        "Keep the rows whose pass rate lies between: gym data filter rows.jsonl --by X.jsonl -o kept.jsonl.",
    ),
    "overlap": (
        "overlap",
        "Find rows of A that are in B, exactly or nearly: gym data overlap train.jsonl bench.jsonl.",
    ),
}

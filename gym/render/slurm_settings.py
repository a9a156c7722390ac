"""`slurm:` of a configuration: where a stack's job is queued and how much of each node it asks for. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from gym.errors import UserError

KEY: Final = "slurm"
_WORD: Final = re.compile(r"[\w.,:/=+@-]*")
_OPTION: Final = re.compile(r"--[a-z][a-z-]*(=\S+)?")
_MEMORY: Final = re.compile(r"\d+(\.\d+)?[kmgt]?", re.IGNORECASE)
_TIME: Final = re.compile(r"(\d+-)?\d+(:\d+){0,2}")


class SlurmContainer(BaseModel):
    """The image in which each node's servers run, where nodes have a program for it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    program: Literal["enroot", "apptainer"]
    """`enroot` by srun's own `--container-image`, which the pyxis plug-in adds; `apptainer` as a program."""
    image: str
    """What that program calls the image; `gym` is installed in it."""


class SlurmSettings(BaseModel):
    """What the queue is asked for."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    partition: str = ""
    """The partition; the cluster's default where nothing is said."""
    account: str = ""
    """Who pays."""
    qos: str = ""
    """The quality of service."""
    constraint: str = ""
    """Features that each node has to have."""
    gres: str = ""
    """Generic resources of each node, beside the GPUs that replicas ask for: `nvme:1`."""
    time: str = ""
    """The time limit as Slurm writes it, in quotes: `"8:00:00"`, `"2-12"`."""
    nodes: int = Field(default=1, ge=1, le=1000)
    """Over how many nodes the replicas are spread."""
    cpus: int | None = Field(default=None, ge=1)
    """CPUs of each node; where nothing is said, what its replicas ask for."""
    memory: str = ""
    """Memory of each node, as `16g`; where nothing is said, what its replicas ask for."""
    options: tuple[str, ...] = ()
    """More options of sbatch: `[--exclusive, --reservation=eval]`."""
    requeue: bool = True
    """A job that lost a node is requeued, and carries on."""
    warn_seconds: int = Field(default=60, ge=1, le=3600)
    """So long before its time limit a job drains."""
    container: SlurmContainer | None = None
    """The image in which a node's servers run."""
    shards: int = Field(default=0, ge=0, le=10_000)
    """Into how many jobs of an array `gym render --target slurm` divides a collection."""
    rollouts: tuple[str, ...] = ()
    """What each of them runs: the words behind `gym rollouts`."""
    output: str = "rollouts.jsonl"
    """Where the merged rollouts go."""

    @field_validator("partition", "account", "qos", "constraint", "gres")
    @classmethod
    def _is_word(cls, value: str) -> str:
        return _matching(_WORD, value, "one word without blanks")

    @field_validator("time", mode="before")
    @classmethod
    def _is_time(cls, value: object) -> object:
        if isinstance(value, int):
            raise ValueError('YAML reads times as numbers: write it in quotes, as "8:00:00"')
        return _matching(_TIME, value, 'a time as "8:00:00"') if isinstance(value, str) and value else value

    @field_validator("memory")
    @classmethod
    def _is_memory(cls, value: str) -> str:
        return _matching(_MEMORY, value, "a size as 16g") if value else value

    @field_validator("options")
    @classmethod
    def _are_options(cls, values: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(_matching(_OPTION, value, "an option as --exclusive or --name=value") for value in values)


def read_slurm_settings(settings: Mapping[str, Any]) -> SlurmSettings:
    """From a plan's settings; what is wrong there is said by the key it stands at."""
    found = settings.get(KEY)
    if found is not None and not isinstance(found, Mapping):
        raise UserError(f"{KEY}: must be a mapping; found {found!r}", "docs/slurm.md lists what it may hold.")
    try:
        return SlurmSettings.model_validate(dict(found or {}))
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in (KEY, *first["loc"]))
        unknown = first["type"] == "extra_forbidden"
        what = "is not a setting of it" if unknown else first["msg"].removeprefix("Value error, ")
        hint = f"It may hold: {', '.join(SlurmSettings.model_fields)}." if unknown else "See docs/slurm.md."
        raise UserError(f"{where}: {what}; found {first['input']!r}", hint) from None


def to_megabytes(text: str) -> int:
    """`512m`, `2g`; a number alone counts bytes, as Docker has it."""
    units = {"k": 1 / 1024, "m": 1, "g": 1024, "t": 1024 * 1024}
    unit = text[-1:].lower()
    number = float(text[:-1] if unit in units else text.rstrip("bB"))
    return max(1, round(number * units[unit] if unit in units else number / 1024 / 1024))


def _matching(pattern: re.Pattern[str], value: str, wanted: str) -> str:
    if pattern.fullmatch(value) is None:
        raise ValueError(f"must be {wanted}")
    return value

"""The data sets that a stack's instances name: `datasets:` of a configuration, as the contract writes it."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, Final, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from gym.config import Instance, Location, StackConfig, path_variants
from gym.config.packed import pack_of
from gym.data.licences import LICENCES, NEEDED_FOR, SETTING
from gym.errors import ConfigError, Problem

Split = Literal["train", "validation", "example", "benchmark"]
LISTS: Final = "datasets"


class OpenModel(BaseModel):
    model_config = ConfigDict(frozen=True, extra="allow")


class HubSource(OpenModel):
    """A file or a split of a data set on a Hugging Face hub."""

    type: Literal["huggingface"] = "huggingface"
    repo_id: str
    artifact_fpath: str | None = None
    revision: str | None = None
    config_name: str | None = None  # of several that its card has


class RegistrySource(OpenModel):
    """A file of a version in a GitLab or MLflow model registry."""

    type: Literal["gitlab"] = "gitlab"
    dataset_name: str
    version: str
    artifact_fpath: str


Source = Annotated[HubSource | RegistrySource, Field(discriminator="type")]


class DataSet(OpenModel):
    """One entry of `datasets:`. A `source` stands alone; of the two older identifiers both may be there."""

    name: str
    type: Split
    jsonl_fpath: str
    num_repeats: int = Field(default=1, ge=1)
    license: str | None = None
    source: Source | None = None
    gitlab_identifier: RegistrySource | None = None
    huggingface_identifier: HubSource | None = None
    start_idx: int | None = Field(default=None, ge=0)
    end_idx: int | None = Field(default=None, ge=0)  # the first row that is left out

    @model_validator(mode="after")
    def _one_way(self) -> DataSet:
        if self.source and (self.gitlab_identifier or self.huggingface_identifier):
            raise ValueError("`source` and an older identifier both say where it is from: keep one")
        if self.start_idx is not None and self.end_idx is not None and self.start_idx >= self.end_idx:
            raise ValueError("start_idx is not before end_idx: no row is left")
        return self

    def sources(self) -> tuple[HubSource | RegistrySource, ...]:
        """The registries that have it, the hub first."""
        found = (self.source, self.huggingface_identifier, self.gitlab_identifier)
        return tuple(one for one in found if one is not None)


class Listed(BaseModel):
    """A data set with the instance that lists it."""

    model_config = ConfigDict(frozen=True)

    instance: Instance
    data: DataSet

    @property
    def where(self) -> Location:
        return self.instance.origin

    def file(self, roots: Iterable[Path]) -> Path | None:
        """Its rows on this disk; a path of another tree's layout is found where the server is here."""
        variants = (*path_variants(self.data.jsonl_fpath), path_below_data(self.data.jsonl_fpath))
        pack = pack_of(self.instance.directory)
        places = (pack,) if pack else (*roots, Path(self.where.file).parent)
        found = (root / one for root in places for one in variants)
        return next((path for path in found if path.is_file()), None)


def path_below_data(path: str) -> str:
    """`data/SERVER/FILE` for rows that cannot lie in a server's folder; other paths stay."""
    parts = path_variants(path)[-1].split("/")
    if len(path_variants(path)) == 1 or len(parts) < 3:
        return path
    rest = parts[2:] if parts[0] != "servers" else parts[3:]
    name = path.replace("\\", "/").split("/")[-len(rest) - 1]
    return "/".join(["data", name, *(rest[1:] if rest[:1] == ["data"] else rest)])


def list_data_sets(stack: StackConfig, *, splits: Iterable[Split] = ()) -> tuple[Listed, ...]:
    """Those of all instances, in their order; all wrong entries are in one error."""
    problems: list[Problem] = []
    licences = _licences(stack.settings, problems)
    found = [
        listed
        for instance in stack.instances
        for index, block in enumerate(_blocks(instance, problems))
        if (listed := _read(instance, index, block, licences, problems)) is not None
    ]
    if problems:
        raise ConfigError(problems)
    wanted = frozenset(splits)
    return tuple(one for one in found if not wanted or one.data.type in wanted)


def _blocks(instance: Instance, problems: list[Problem]) -> list[Any]:
    found = instance.fields.get(LISTS) or []
    if isinstance(found, list):
        return found
    key = f"{instance.name}.{instance.type}.{instance.implementation}.{LISTS}"
    where = instance.origin
    problems.append(Problem("must be a list of data sets", where.file, where.line, key, "write `- name: ...` below it"))
    return []


def _read(
    instance: Instance, index: int, block: Mapping[str, Any], licences: tuple[str, ...], problems: list[Problem]
) -> Listed | None:
    key = f"{instance.name}.{instance.type}.{instance.implementation}.{LISTS}[{index}]"
    where = instance.origin
    try:
        data = DataSet.model_validate(block)
    except ValidationError as error:
        for one in error.errors(include_url=False):
            path = ".".join([key, *(str(part) for part in one["loc"])])
            what = one["msg"].removeprefix("Value error, ")
            problems.append(Problem(what, where.file, where.line, path, _hint(one, block)))
        return None
    problem = _licence_problem(data, licences)
    if problem:
        what, hint = problem
        problems.append(Problem(what, where.file, where.line, f"{key}.license", hint))
        return None
    return Listed(instance=instance, data=data)


def _hint(error: Any, block: Mapping[str, Any]) -> str:
    if error["type"] == "literal_error":
        near = difflib.get_close_matches(str(error["input"]), get_args(Split), n=1)
        return f"did you mean {near[0]}?" if near else ""
    missing = error["loc"][-1] if error["type"] == "missing" and error["loc"] else ""
    near = difflib.get_close_matches(str(missing), [str(key) for key in block], n=1) if missing else []
    return f"did you mean {missing} where you wrote {near[0]}?" if near else ""


def _licence_problem(data: DataSet, licences: tuple[str, ...]) -> tuple[str, str] | None:
    if data.license is None:
        if data.type not in NEEDED_FOR:
            return None
        return f"is missing; data to {data.type} on needs one", f"one of: {'; '.join(licences)}"
    if data.license in licences:
        return None
    near = difflib.get_close_matches(data.license, licences, n=1)
    hint = f"did you mean {near[0]!r}?" if near else f"one of: {'; '.join(licences)}, or add it to `{SETTING}`"
    return f"{data.license!r} is not a known licence", hint


def _licences(settings: Mapping[str, Any], problems: list[Problem]) -> tuple[str, ...]:
    further = settings.get(SETTING) or []
    if not isinstance(further, list) or not all(isinstance(one, str) and one.strip() for one in further):
        problems.append(Problem("must be a list of names", key=SETTING, hint=f"{SETTING}: [Our Licence 1.0]"))
        return LICENCES
    return (*LICENCES, *further)

"""What a row asks for: SWE-bench and SWE-Gym shapes read into one `Task`. Pure.

Fields may stand at the top of a row, or inside `instance`, `instance_dict` or the metadata of its parameters.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Final

import orjson
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from gym.server.errors import validation_message
from gym.wire.failures import RolloutError
from gym.wire.json_text import parse_or
from gym.wire.rows import Row, VerifyRequest
from gym.wire.sandbox import HOST, Build

VERIFIED_IMAGE: Final = "docker.io/swebench/sweb.eval.x86_64.{}:latest"
GYM_IMAGE: Final = "docker.io/xingyaoww/sweb.eval.x86_64.{}:latest"
NESTED: Final = ("instance", "instance_dict", "metadata")
NO_TESTS: Final = (".json", ".png", "csv", ".txt", ".md", ".jpg", ".jpeg", ".pkl", ".yml", ".yaml", ".toml")


def parse_ids(given: Any) -> Any:
    """Data sets write a list, or the JSON of one."""
    if given is None:
        return ()
    if not isinstance(given, str):
        return given
    try:
        parsed = orjson.loads(given or "[]")
    except orjson.JSONDecodeError:
        raise ValueError("a list of test ids, or the JSON text of one") from None
    return [parsed] if isinstance(parsed, str) else parsed


Ids = Annotated[tuple[str, ...], BeforeValidator(parse_ids)]
Text = Annotated[str, BeforeValidator(lambda given: given or "")]


class Setup(BaseModel):
    """What is installed in each sandbox of the task before the agent works in it, and the hosts it is fetched from."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    commands: tuple[str, ...] = Field(min_length=1)  # lines of the shell, run in the repository
    hosts: tuple[Annotated[str, Field(pattern=HOST)], ...] = ()  # reached by these commands alone
    timeout: float = Field(default=600.0, gt=0)  # of one command


class TaskFields(BaseModel):
    """The fields of a row that mean something here."""

    instance_id: str = ""
    repo: Text = ""
    version: Text = ""
    base_commit: Text = ""
    subset: Text = ""
    problem_statement: Text = ""
    patch: Text = ""
    test_patch: Text = ""
    FAIL_TO_PASS: Ids = ()
    PASS_TO_PASS: Ids = ()
    image: str | None = None
    image_name: str | None = None
    docker_image: str | None = None
    dockerfile: str | None = None
    build: Build | None = None
    setup_script: str | None = None  # of `build.files`: makes the repository in $1, where there are no images
    setup: Setup | None = None
    workdir: str | None = None
    test_command: str | None = None
    eval_script: str | None = None
    log_parser: str | None = None  # of the swebench package
    eval_timeout: float | None = Field(default=None, gt=0)
    controls: bool = True
    single_turn: bool = False  # the patch stands in the answer; no sandbox is made for an agent
    model_patch: str | None = None  # graded instead of what is in the sandbox: a replay, the gold patch
    harbor: Any = None  # such tasks have an environment of their own


class SweRow(TaskFields, Row):
    pass


class SweVerify(TaskFields, VerifyRequest):
    pass


class Task(TaskFields):
    """A row with its nested fields brought to the top."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    @property
    def own_image(self) -> str | None:
        return self.image_name or self.image or self.docker_image

    @property
    def own_build(self) -> Build | None:
        if self.own_image:
            return None
        return self.build or (Build(dockerfile=self.dockerfile) if self.dockerfile else None)

    @property
    def image_to_use(self) -> str:
        return self.own_image or image_of(self.instance_id, self.subset)

    @property
    def source(self) -> dict[str, Any]:
        """`image` or `build` of a sandbox."""
        build = self.own_build
        return {"image": self.image_to_use} if build is None else {"build": build}

    @property
    def ids(self) -> tuple[str, ...]:
        return (*self.FAIL_TO_PASS, *self.PASS_TO_PASS)


def task_of(row: BaseModel) -> Task:
    given = row.model_dump(exclude_unset=True)
    params = given.get("responses_create_params")
    outer = params.get("metadata") if isinstance(params, Mapping) else None
    merged: dict[str, Any] = {}
    for part in (*nested(outer), *nested(given)):
        merged |= {key: value for key, value in part.items() if value is not None}
    if merged.get("harbor"):
        raise RolloutError("row", "`harbor`: this is a row of the environment `harbor`, which runs it as it is")
    try:
        return Task.model_validate(merged)
    except ValidationError as error:
        raise RolloutError("row", validation_message(error)) from None


def nested(fields: Any) -> Iterator[Mapping[str, Any]]:
    """Inner ones first, so that what stands outside wins."""
    if isinstance(fields, str):
        fields = parse_or(fields)
    if isinstance(fields, Mapping):
        for name in NESTED:
            yield from nested(fields.get(name))
        yield fields


def image_of(instance_id: str, subset: str) -> str:
    """Where the images of the public data sets are."""
    if not instance_id:
        raise RolloutError(
            "row", "a row needs `image`, `build` or `dockerfile`, or an `instance_id` that names an image"
        )
    if subset == "verified":
        return VERIFIED_IMAGE.format(instance_id.replace("__", "_1776_")).lower()
    return GYM_IMAGE.format(instance_id.replace("__", "_s_")).lower()


def patched_files(patch: str) -> tuple[str, ...]:
    """Paths after the patch; a deleted file by its old one."""
    found: dict[str, None] = {}
    for old, new in re.findall(r"^diff --git (?:\"?a/)(.+?)\"? \"?b/(.+?)\"?$", patch, re.MULTILINE):
        found[new] = None
        found[old] = None
    return tuple(found)


def files_with_tests(task: Task) -> tuple[str, ...]:
    """What the tests' runner is given: the files of the test patch, and those that the ids name."""
    named = [one.partition("::")[0] for one in task.ids if "::" in one]
    added = [path for path in patched_files(task.test_patch) if not path.endswith(NO_TESTS)]
    tests = [path for path in added if _is_test(path)] or added
    return tuple(sorted({*tests, *(path for path in named if path.endswith(".py"))}))


def _is_test(path: str) -> bool:
    name = path.rpartition("/")[2]
    return name.startswith("test") or name.removesuffix(".py").endswith(("_test", "_tests"))

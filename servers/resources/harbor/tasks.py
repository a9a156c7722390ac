"""What a row asks for: a task folder of Harbor or terminal-bench, read by `folders.py`. Pure."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from gym.wire.failures import RolloutError
from gym.wire.rows import Row, VerifyRequest
from gym.wire.sandbox import HOST, Build

Reach = Literal["none", "public"] | tuple[Annotated[str, Field(pattern=HOST)], ...]  # or these hosts


class Artifact(BaseModel):
    """A path that the agent's sandbox hands to the verifier's, where it is put in the same place."""

    model_config = ConfigDict(frozen=True, extra="ignore")
    source: str


class Verification(BaseModel):
    """The tests of a task, and how they are run."""

    model_config = ConfigDict(frozen=True, extra="ignore")
    tests: Build  # its files are those of tests/; its Dockerfile is "" where the verifier has none of its own
    image: str | None = None  # of a separate verifier; its tests are in it, as they are where there is a Dockerfile
    command: tuple[str, ...] = ("bash", "/tests/test.sh")
    reward: Literal["file", "pytest"] = "file"  # /logs/verifier/reward.json or .txt; or the summary that pytest prints
    separate: bool = False  # the verifier begins from its own image and is given the artifacts alone
    artifacts: tuple[Artifact, ...] = ()
    timeout: float = Field(default=600.0, gt=0)
    env: dict[str, str] = Field(default_factory=dict)
    network: Reach = "none"

    @property
    def has_own_image(self) -> bool:
        return self.separate and bool(self.image or self.tests.dockerfile)


class TaskFields(BaseModel):
    """The fields of a row that mean something here."""

    instance_id: str = ""
    image: str | None = None
    build: Build | None = None
    workdir: str | None = None
    env: dict[str, str] = Field(default_factory=dict)
    cpus: float | None = Field(default=None, gt=0)
    memory_mb: int | None = Field(default=None, gt=0)
    storage_mb: int | None = Field(default=None, gt=0)
    network: Reach = "none"  # what the agent may reach
    agent_timeout: float = Field(default=600.0, gt=0)
    harbor: Verification


class HarborRow(TaskFields, Row):
    pass


class HarborVerify(TaskFields, VerifyRequest):
    pass


class Task(TaskFields):
    model_config = ConfigDict(frozen=True, extra="ignore")

    @property
    def source(self) -> dict[str, Any]:
        """`image` or `build` of the sandbox in which the agent works."""
        return {"image": self.image} if self.image else {"build": self.build}

    @property
    def verifier_source(self) -> dict[str, Any]:
        """Of a separate verifier."""
        asked = self.harbor
        if asked.image:
            return {"image": asked.image}
        return {"build": asked.tests} if asked.tests.dockerfile else self.source


def task_of(row: TaskFields) -> Task:
    task = Task.model_validate(row.model_dump(exclude_unset=True))
    if (task.image is None) == (task.build is None):
        raise RolloutError("row", "a row needs `image` or `build`, and one of them only: where the agent works")
    return task

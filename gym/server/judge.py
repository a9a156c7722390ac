"""Asking another model for a verdict: the prompt is checked at the start, and what cannot be read is never a 0.

`JudgeConfig` has the fields, `Prompt` the template, `Judge` does the asking, `gym.server.verdicts` the reading.
"""

from __future__ import annotations

import asyncio
import logging
import random
import re
import string
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import Field

from gym.errors import UserError
from gym.server.base import ServerPart
from gym.server.config import Reference
from gym.server.resources import ResourcesConfig, ResourcesServer
from gym.server.rollout_client import RolloutClient
from gym.server.verdicts import labels_as_verdicts
from gym.wire import items
from gym.wire.failures import RolloutError

log = logging.getLogger("gym.server")

POLICY = "policy_model"
FIRST_PAUSE, LONGEST_PAUSE = 0.5, 8.0
_DELIMITER = re.compile(
    r"<\|[^|>\n]{1,60}\|>|</?[A-Za-z_][\w-]{0,40}>|\[\[[^\]\n]{1,40}\]\]|={3,}[^=\n]{1,60}={3,}|-{3,}[^-\n]{1,60}-{3,}"
)
SHOWN = 200  # characters of an answer that no verdict can be read from
LONGEST_JUDGED = 400_000  # characters: about what fits into the context of a judge


class JudgeConfig(ResourcesConfig):
    """Subclass it for a server that asks a judge. Its other fields are the server's own."""

    judge_model_server: Reference
    """The model that judges, as `{type: responses_api_models, name: judge_model}`."""
    judge_responses_create_params: dict[str, Any] = Field(default_factory=lambda: {"input": []})
    """What every question to the judge has: temperature, tokens, messages before the prompt."""
    judge_endpoint_max_concurrency: int | None = Field(default=64, ge=1)
    """Questions to the judge at once, of one replica."""
    judge_retries: int = Field(default=2, ge=0)
    """Retries of a judge that did not answer."""
    judge_reads: int = Field(default=3, ge=1)
    """How often it is asked, where no verdict can be read from its answer."""
    judge_seconds: float = Field(default=600.0, gt=0)
    """How long one answer may take."""
    judge_may_be_policy: bool = False
    """Let the policy judge itself; refused without this."""


@dataclass(frozen=True, slots=True)
class JudgeReply:
    """What a judge was asked and what it answered, whole."""

    params: dict[str, Any]
    response: dict[str, Any]

    @property
    def text(self) -> str:
        """The last output item's text; nothing when a judge did not end with a message."""
        output = self.response["output"]
        return items.item_text(output[-1]) if output and items.is_message(output[-1]) else ""

    def evaluation(self, verdict: str | None) -> dict[str, Any]:
        """One entry of a reply's `judge_evaluations`."""
        return {"responses_create_params": self.params, "response": self.response, "verdict_label": verdict}


@dataclass(frozen=True, slots=True)
class Comparison:
    """Whether two texts are the same. `swapped` is the answer with both exchanged; None: not asked."""

    equal: bool
    swapped: bool | None
    evaluations: list[dict[str, Any]]


@dataclass(frozen=True)
class Prompt:
    """A template with `{name}` placeholders, checked when it is made; `{{` is a brace."""

    text: str
    names: frozenset[str]
    delimiters: tuple[str, ...] = field(default=())

    @classmethod
    def parse(
        cls, text: str, required: Iterable[str], optional: Iterable[str] = (), *, where: str = "prompt"
    ) -> Prompt:
        """`where` names the setting, for the error: an unknown placeholder, or one that has to be there and is not."""
        wanted, allowed = set(required), set(required) | set(optional)
        found = _placeholders(text, where)
        if unknown := sorted(found - allowed):
            known = ", ".join(f"{{{name}}}" for name in sorted(allowed))
            raise UserError(
                f"{where}: no such placeholder: {', '.join(f'{{{name}}}' for name in unknown)}.",
                f"It may have {known}; write {{{{ for a brace.",
            )
        if missing := sorted(wanted - found):
            raise UserError(
                f"{where}: the judge would never see {', '.join(f'{{{name}}}' for name in missing)}.",
                "Put that placeholder into the template.",
            )
        return cls(text, frozenset(found), tuple(dict.fromkeys(_DELIMITER.findall(text))))

    @classmethod
    def load(
        cls,
        text: str | None,
        path: str | None,
        required: Iterable[str],
        optional: Iterable[str] = (),
        *,
        folder: Path,
        where: str = "judge_prompt_template",
    ) -> Prompt:
        """The template itself, or a file: relative to the server's folder, or with that folder's name in its path."""
        if (text is None) == (path is None):
            raise UserError(f"{where}: give the text, or {where}_fpath, not both and not neither.")
        if text is not None:
            return cls.parse(text, required, optional, where=where)
        assert path is not None
        file = find_file(path, folder, where)
        return cls.parse(
            file.read_text(encoding="utf-8").strip(), required, optional, where=f"{where}_fpath ({file.name})"
        )

    def fill(self, values: Mapping[str, str], *, untrusted: Iterable[str] = (), labels: Iterable[str] = ()) -> str:
        """Values of `untrusted` names cannot speak in the template's delimiters, nor in labels that have signs."""
        unsafe = set(untrusted)
        markers = (*self.delimiters, *labels)
        safe = {name: defuse(text, markers) if name in unsafe else text for name, text in values.items()}
        return self.text.format_map(safe)


class Judge:
    """Of one server. `ask` raises RolloutError of kind `judge` or `timeout`; a collector retries, never scores."""

    def __init__(
        self,
        server: ResourcesServer[Any],
        config: JudgeConfig,
        prompt: Prompt | None = None,
        untrusted: Sequence[str] = (),
    ) -> None:
        self._server = server
        self._prompt = prompt
        self._untrusted = untrusted
        self._config = config
        self.instance = config.judge_model_server.name
        max_concurrent = config.judge_endpoint_max_concurrency
        self._places = asyncio.Semaphore(max_concurrent) if max_concurrent else None
        _check_policy(config)

    async def ask(self, prompt: str, *, system: str | None = None) -> JudgeReply:
        """One question, retried while its failure may pass and there is time."""
        messages = [_message("system", system)] if system is not None else []
        params = {**self._config.judge_responses_create_params, "input": [*messages, _message("user", prompt)]}
        if self._places is None:
            return JudgeReply(params, await self._answer(params))
        async with self._places:
            return JudgeReply(params, await self._answer(params))

    @property
    def prompt(self) -> Prompt:
        """The template that `judged` read."""
        assert self._prompt is not None, "this judge was made without a prompt"
        return self._prompt

    async def verdict(self, read: Callable[[str], str | None], /, **values: str) -> tuple[JudgeReply, str]:
        """`ask_verdict` of its own prompt, filled in with these values."""
        return await self.ask_verdict(self.prompt.fill(values, untrusted=self._untrusted), read)

    async def ask_verdict(
        self, prompt: str, read: Callable[[str], str | None], *, system: str | None = None
    ) -> tuple[JudgeReply, str]:
        """The first answer from which `read` gets a verdict. Without one the judge has failed, and for good: a policy
        that can confuse a judge must not buy a new attempt with it, and such a judge says nothing about an answer."""
        for _ in range(self._config.judge_reads):
            reply = await self.ask(prompt, system=system)
            if (verdict := read(reply.text)) is not None:
                return reply, verdict
        said = f"it said {reply.text[-SHOWN:]!r}" if reply.text.strip() else "it said nothing"
        raise RolloutError(
            "judge",
            f"no verdict can be read from what the judge {self.instance} answered"
            f" ({_times(self._config.judge_reads)}): {said}",
            server=self.instance,
            retryable=False,
        )

    async def compare(
        self,
        prompt: Prompt,
        values: Mapping[str, str],
        *,
        equal: str,
        not_equal: str,
        swap: tuple[str, str] | None = None,
        untrusted: Sequence[str] = ("generated_answer",),
        system: str | None = None,
    ) -> Comparison:
        """Asks whether two values mean the same. With `swap`, an "equal" has to hold with those two exchanged too."""
        labels = (equal, not_equal)
        verdicts = labels_as_verdicts(labels)

        async def is_equal(given: Mapping[str, str], unsafe: Sequence[str]) -> tuple[bool, dict[str, Any]]:
            question = prompt.fill(given, untrusted=unsafe, labels=labels)
            reply, verdict = await self.ask_verdict(question, verdicts.read, system=system)
            return verdict == equal, reply.evaluation(verdict)

        first, evaluation = await is_equal(values, untrusted)
        if not first or swap is None:
            return Comparison(first, None, [evaluation])
        other = dict(zip(swap, reversed(swap), strict=True))
        exchanged = {name: values[other.get(name, name)] for name in values}
        second, swapped = await is_equal(exchanged, [other.get(name, name) for name in untrusted])
        return Comparison(first, second, [evaluation, swapped])

    async def _answer(self, params: dict[str, Any]) -> dict[str, Any]:
        async with self._server.outgoing(model_server=self.instance, seconds=self._config.judge_seconds) as rollout:
            for tries in range(self._config.judge_retries + 1):
                try:
                    return await rollout.ask_model(params, hop="judge")
                except RolloutError as error:
                    last = tries == self._config.judge_retries or not error.retryable
                    if last or not await _pause(tries, rollout):
                        raise self._failed(error, tries + 1) from error
        raise AssertionError("the last try either answers or raises")

    def _failed(self, error: RolloutError, tries: int) -> RolloutError:
        if error.kind == "cancelled":
            return error
        tried = f" ({_times(tries)})" if tries > 1 else ""
        return RolloutError(
            "timeout" if error.kind == "timeout" else "judge",
            f"the judge {self.instance} did not answer{tried}: {error.message}",
            server=error.server or self.instance,
            retryable=error.retryable,
        )


def judged(
    file: str | Callable[[Any], str] | None = None,
    *,
    text: str | None = None,
    required: Sequence[str],
    optional: Sequence[str] = (),
    untrusted: Sequence[str] = (),
    setting: str = "judge_prompt_template",
) -> Any:
    """`judge: Judge = judged("prompt.txt", required=("response",))` in a class whose `config` is a JudgeConfig.

    The prompt is a file beside the server (or what a function of the configuration names), or a text. Where the
    configuration has `judge_prompt_template` or `judge_prompt_template_fpath`, they win. `untrusted` values are the
    policy's words.
    """
    return _Judged(file, text, required, optional, untrusted, setting)


@dataclass(frozen=True)
class _Judged(ServerPart):
    file: str | Callable[[Any], str] | None
    text: str | None
    required: Sequence[str]
    optional: Sequence[str]
    untrusted: Sequence[str]
    setting: str

    def make(self, server: Any) -> Judge:
        config = server.config
        text, path = getattr(config, self.setting, None), getattr(config, f"{self.setting}_fpath", None)
        if text is None and path is None:
            text, path = self.text, self.file(config) if callable(self.file) else self.file
        prompt = Prompt.load(text, path, self.required, self.optional, folder=type(server).here, where=self.setting)
        return Judge(server, config, prompt, self.untrusted)


def not_for_a_judge(text: str) -> str:
    """Why an answer needs no judge; empty when it needs one."""
    if not text.strip():
        return "the answer is empty"
    return "" if len(text) <= LONGEST_JUDGED else f"the answer is longer than {LONGEST_JUDGED} characters"


def defuse(text: str, markers: Iterable[str]) -> str:
    """`[[A=B]]` becomes `[ [A=B]]`: readable, and no label. Words stay: a marker differs from prose by a sign."""
    spelt = sorted({one for one in markers if not one.replace(" ", "").replace("_", "").isalnum()}, key=len)
    if not spelt:
        return text
    pattern = "|".join(re.escape(one) for one in reversed(spelt))
    return re.sub(pattern, lambda found: f"{found.group()[0]} {found.group()[1:]}", text, flags=re.IGNORECASE)


def _times(count: int) -> str:
    return "asked once" if count == 1 else f"asked {count} times"


def _message(role: str, text: str) -> dict[str, Any]:
    return {"role": role, "content": text, "type": "message"}


async def _pause(tries: int, rollout: RolloutClient) -> bool:
    """Waits before another try; False when there would be no time for it."""
    seconds = min(FIRST_PAUSE * 2**tries, LONGEST_PAUSE) * random.uniform(0.5, 1)
    if seconds >= rollout.seconds_left:
        return False
    await asyncio.sleep(seconds)
    return True


def _check_policy(config: JudgeConfig) -> None:
    """A policy that grades itself learns to please itself."""
    if config.judge_model_server.name != POLICY or config.judge_may_be_policy:
        return
    what = f"{config.name}: judge_model_server is {POLICY}: the model that is trained would grade itself."
    hint = "Name another model there, or set judge_may_be_policy: true."
    if getattr(config, "strict", False):
        raise UserError(what, hint)
    log.warning("%s %s", what, hint)


def _placeholders(text: str, where: str) -> set[str]:
    try:
        fields = [
            (name, spec, conversion) for _, name, spec, conversion in string.Formatter().parse(text) if name is not None
        ]
    except ValueError as error:
        raise UserError(f"{where}: {error}.", "Write {name} for a placeholder and {{ for a brace.") from None
    for name, spec, conversion in fields:
        if not name.isidentifier() or spec or conversion:
            raise UserError(f"{where}: {{{name}}} is not a placeholder.", "Write {name}; {{ for a brace.")
    return {name for name, _, _ in fields}


def find_file(path: str, folder: Path, where: str) -> Path:
    """Configurations of other checkouts say `resources_servers/NAME/prompts/x.txt`: what follows NAME is ours."""
    wanted = Path(path)
    tried = [wanted] if wanted.is_absolute() else [folder / wanted, Path.cwd() / wanted]
    if folder.name in wanted.parts:
        tried.append(folder.joinpath(*wanted.parts[wanted.parts.index(folder.name) + 1 :]))
    found = next((one for one in tried if one.is_file()), None)
    if found is None:
        raise UserError(f"{where}_fpath: no file {path}.", f"It is looked for in {folder}.")
    return found

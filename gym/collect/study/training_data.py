"""Rollouts as training data: conversations (sft), chosen and rejected answers (dpo), a table (parquet)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, Literal, TypeVar

from gym.collect.keys import DoneKeys
from gym.collect.result_file import result_file
from gym.collect.study.chats import ArgumentForm, Conversation, rollout_to_conversation
from gym.collect.study.example_lines import write_examples
from gym.collect.study.parquet_table import to_row, write_parquet
from gym.collect.study.recorded import Recorded, parse_rollout, read_rollouts
from gym.data.row_keys import asked_key
from gym.data.row_parsing import PARAMS
from gym.errors import UserError
from gym.wire.deep_values import write_cut

Form = Literal["sft", "dpo", "parquet"]
T = TypeVar("T")
MAX_LISTED = 1000
_TWICE_HINT = "remove one of the two lines, or add --skip-bad-rows to leave it out"
_MASK = (1 << 64) - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportOptions:
    form: Form
    output: Path
    min_reward: float = 1.0  # sft
    margin: float = 0.0  # dpo: how far the better reward is above the worse; any distance at all when 0
    skip_bad_rows: bool = False
    arguments: ArgumentForm = "object"  # of tool calls, in sft and dpo


@dataclass(slots=True)
class Exported:
    """`read` rollouts became `written` examples; `below` were not good enough or had no partner."""

    read: int = 0
    written: int = 0
    below: int = 0
    best: float | None = None
    dropped: int = 0
    left_out: list[str] = field(default_factory=list)  # of those, file:line and why, the first thousand

    def see(self, rollout: Recorded) -> None:
        self.read += 1
        self.best = rollout.reward if self.best is None else max(self.best, rollout.reward)

    def leave_out(self, error: UserError) -> None:
        self.dropped += 1
        if len(self.left_out) < MAX_LISTED:
            self.left_out.append(error.what)


@dataclass(slots=True)
class _Extremes:
    """The best and the worst rollout of a task: reward, repeat, place. Equal ones: the earlier repeat."""

    best: tuple[float, int, int, str]
    worst: tuple[float, int, int, str]

    def add(self, rollout: Recorded) -> None:
        one = _place(rollout)
        if (-one[0], one[1]) < (-self.best[0], self.best[1]):
            self.best = one
        if one[:2] < self.worst[:2]:
            self.worst = one


def export_rollouts(path: Path, options: ExportOptions) -> Exported:
    """Writes nothing at all when nothing is good enough."""
    exported = Exported()
    writers: dict[Form, Callable[[Path, ExportOptions, Exported, BinaryIO], None]] = {
        "sft": _write_sft,
        "dpo": _write_dpo,
        "parquet": _write_parquet,
    }
    with ExitStack() as stack:
        stream = stack.enter_context(result_file(options.output))
        writers[options.form](path, options, exported, stream)
        if not exported.written:
            raise UserError(_nothing(path, options, exported), _hint(options, exported))
    return exported


def _write_sft(path: Path, options: ExportOptions, exported: Exported, stream: BinaryIO) -> None:
    good = _good(_seen(read_rollouts(path), options, exported), options, exported)
    talks = _conversations(good, options, exported)
    exported.written = write_examples((_example(*one) for one in talks), stream)


def _write_dpo(path: Path, options: ExportOptions, exported: Exported, stream: BinaryIO) -> None:
    exported.written = write_examples(_pairs(path, options, exported), stream)


def _pairs(path: Path, options: ExportOptions, exported: Exported) -> Iterator[dict[str, Any]]:
    tasks: dict[tuple[str, int, bytes], _Extremes] = {}
    for rollout in _seen(read_rollouts(path), options, exported):
        task = rollout.agent, rollout.task, _asked(rollout)  # files put together have a task of a number more than once
        tasks.setdefault(task, _Extremes(_place(rollout), _place(rollout))).add(rollout)
    with path.open("rb") as source:
        for extremes in tasks.values():
            apart = extremes.best[0] - extremes.worst[0]
            if apart <= 0 or apart < options.margin:
                exported.below += 1
                continue
            pair = [_read_at(source, place) for place in (extremes.best, extremes.worst)]
            talks = [talk for _, talk in _conversations(iter(pair), options, exported)]
            if len(talks) == 2:
                yield _preference(*talks)


def _write_parquet(path: Path, options: ExportOptions, exported: Exported, stream: BinaryIO) -> None:
    rollouts = _seen(read_rollouts(path), options, exported)
    found = _converted(rollouts, lambda one: to_row(one, rollout_to_conversation(one)), options, exported)
    exported.written = write_parquet((row for _, row in found), stream)


def _conversations(
    rollouts: Iterator[Recorded], options: ExportOptions, exported: Exported
) -> Iterator[tuple[Recorded, Conversation]]:
    return _converted(rollouts, lambda one: rollout_to_conversation(one, options.arguments), options, exported)


def _good(rollouts: Iterator[Recorded], options: ExportOptions, exported: Exported) -> Iterator[Recorded]:
    for rollout in rollouts:
        if rollout.reward >= options.min_reward:
            yield rollout
        else:
            exported.below += 1


def _seen(rollouts: Iterator[Recorded], options: ExportOptions, exported: Exported) -> Iterator[Recorded]:
    """Each once: a line that stands there twice would weigh twice in the training."""
    lines = DoneKeys()
    for rollout in rollouts:
        if not lines.add(hash(rollout.raw.rstrip()) & _MASK, 0):
            twice = UserError(f"{rollout.where}: this rollout is in the file twice", _TWICE_HINT)
            if not options.skip_bad_rows:
                raise twice
            exported.leave_out(twice)
            continue
        exported.see(rollout)
        yield rollout


def _converted(
    rollouts: Iterator[Recorded], convert: Callable[[Recorded], T], options: ExportOptions, exported: Exported
) -> Iterator[tuple[Recorded, T]]:
    for rollout in rollouts:
        try:
            converted = convert(rollout)
        except UserError as error:
            if not options.skip_bad_rows:
                raise
            exported.leave_out(error)
            continue
        yield rollout, converted


def _example(rollout: Recorded, talk: Conversation) -> dict[str, Any]:
    return {"messages": talk.prompt + talk.answer, "tools": _tools_text(talk), "reward": rollout.reward}


def _preference(chosen: Conversation, rejected: Conversation) -> dict[str, Any]:
    return {
        "prompt": chosen.prompt,
        "chosen": chosen.answer,
        "rejected": rejected.answer,
        "tools": _tools_text(chosen),
    }


def _tools_text(talk: Conversation) -> str:
    """JSON text, which TRL parses: a table cannot hold tools of varying shapes. Without tools it is the text "null".

    A null of the first 10 MB would be the column's type to `load_dataset`, and for "[]" Llama writes a section
    of tools.
    """
    return write_cut(talk.tools or None).decode()


def _asked(rollout: Recorded) -> bytes:
    params = rollout.fields.get(PARAMS)
    return asked_key(rollout.fields) if isinstance(params, dict) else b""


def _place(rollout: Recorded) -> tuple[float, int, int, str]:
    return rollout.reward, rollout.repeat, rollout.offset, rollout.where


def _read_at(source: BinaryIO, place: tuple[float, int, int, str]) -> Recorded:
    _, _, offset, where = place
    source.seek(offset)
    return parse_rollout(source.readline(), where, offset)


def _nothing(path: Path, options: ExportOptions, exported: Exported) -> str:
    if not exported.read:
        return f"{path}: no rollouts"
    if exported.left_out:
        return f"{path}: none of the rollouts that qualify can be written as a chat; the first: {exported.left_out[0]}"
    if options.form == "dpo":
        apart = f"lie {options.margin:g} apart" if options.margin else "differ"
        return f"{path}: in none of {exported.below:,} tasks do two rewards {apart}"
    best = f"the best has {exported.best:g}"
    return f"{path}: none of {exported.read:,} rollouts has a reward of {options.min_reward:g} or more; {best}"


def _hint(options: ExportOptions, exported: Exported) -> str:
    if not exported.read or exported.left_out:
        return ""
    if options.form == "dpo":
        return "collect several rollouts of each row (gym rollouts --repeats 4)" + (
            ", or use a smaller --margin" if options.margin else ""
        )
    return f"use --min-reward {exported.best:g}"

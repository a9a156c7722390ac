"""Good and bad lines of inputs written apart: NAME.good.jsonl and NAME.bad.jsonl in a folder, whole or not at all."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import BinaryIO, NamedTuple

from gym.data.file_kinds import packed_suffix
from gym.data.line_source import STDIN, name_of
from gym.data.validation import BlockResult
from gym.data.whole_files import whole_file
from gym.errors import UserError


class Pair(NamedTuple):
    good: Path
    bad: Path


def plan_quarantine(files: Sequence[str], folder: Path) -> dict[str, Pair]:
    """Where each input's lines go; two inputs of one name, or an output that is an input, are refused."""
    pairs: dict[str, Pair] = {}
    written: dict[Path, str] = {}
    inputs = {Path(file).resolve() for file in files if file != STDIN}
    for file in files:
        stem = _stem(file)
        pair = Pair(folder / f"{stem}.good.jsonl", folder / f"{stem}.bad.jsonl")
        for path in pair:
            if other := written.get(path):
                raise UserError(f"{other} and {file} would both write {path}", "validate them one after the other")
            if path.resolve() in inputs:
                raise UserError(f"{path} is an input, and would be written over", "name another folder")
            written[path] = file
        pairs[name_of(file)] = pair
    return pairs


def write_apart(results: Iterable[BlockResult], pairs: dict[str, Pair]) -> Iterator[BlockResult]:
    """The same results, their lines written as they pass. All files take their places when the last one has passed."""
    with ExitStack() as stack:
        files = {name: tuple(stack.enter_context(whole_file(path)) for path in pair) for name, pair in pairs.items()}
        for result in results:
            good, bad = files[result.block.file]
            _write(good, result.good_lines())
            _write(bad, result.bad_lines())
            yield result


def _write(file: BinaryIO, lines: Iterable[bytes]) -> None:
    file.writelines(line + b"\n" for line in lines)


def _stem(file: str) -> str:
    if file == STDIN:
        return "stdin"
    name = Path(file).name
    return name.removesuffix(packed_suffix(name)).removesuffix(".jsonl").removesuffix(".json")

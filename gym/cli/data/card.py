"""`gym data card`: a card that tells people what a data set is."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated

import typer

from gym.cli import console
from gym.cli.data.common import Output
from gym.cli.data.rollout_scores import Failures, read_scored
from gym.cli.stack_request import load_named
from gym.collect.study.recorded import find_rollouts
from gym.config import find_server, search_roots
from gym.data.data_card import FIGURES, About, Card, Part, make_card
from gym.data.data_sets import HubSource, Listed, list_data_sets
from gym.data.line_source import expand_inputs, read_lines
from gym.data.portrait import portray
from gym.data.token_counts import ESTIMATE, Tokenizer, open_tokenizer
from gym.data.whole_files import WholeFiles, refuse_inputs
from gym.errors import UserError

FilesOrName = Annotated[list[str], typer.Argument(metavar="FILE...|NAME", help="Files of rows, or a server's name.")]
Title = Annotated[str, typer.Option("--title", metavar="TEXT", help="Its name.")]
Description = Annotated[str, typer.Option("--description", metavar="TEXT", help="What it is, in a sentence.")]
Licence = Annotated[str, typer.Option("--licence", "--license", metavar="NAME", help="Of the rows.")]
SourceOf = Annotated[str, typer.Option("--source", metavar="TEXT", help="Where the rows are from.")]
ServerName = Annotated[str, typer.Option("--server", metavar="NAME", help="The environment that files are for.")]
By = Annotated[list[Path] | None, typer.Option("--by", metavar="X.jsonl", help="Rollouts whose rewards are shown.")]
TokenizerName = Annotated[str, typer.Option("--tokenizer", metavar="NAME|FILE", help="As in gym data prepare.")]


def command(
    given: FilesOrName,
    output: Output,
    title: Title = "",
    description: Description = "",
    licence: Licence = "",
    source: SourceOf = "",
    server: ServerName = "",
    by: By = None,
    tokenizer: TokenizerName = ESTIMATE,
) -> int:
    """Write a card with figures and plots: gym data card train.jsonl -o README.md."""
    known = open_tokenizer(tokenizer)
    rollouts = [find_rollouts(one).rollouts for one in by or []]
    about, parts = _of_server(given[0], known) if _is_name(given) else _of_files(given, known, output.parent)
    stated = About(
        title or about.title,
        description or about.description,
        licence or about.licence,
        source or about.source,
        server or about.server,
    )
    rewards = Counter(one.reward for path in rollouts for one in read_scored(path, Failures()))
    refuse_inputs([output], [*(part.file for part in parts), *map(str, rollouts)])
    write_card(make_card(stated, parts, rewards), output)
    console.show(f"{output} ({sum(part.portrait.rows for part in parts):,} rows)")
    if not stated.licence:
        console.note("no licence is stated: give it with --licence", style="yellow")
    return 0


def _is_name(given: Sequence[str]) -> bool:
    """Of a server; the folder that `gym new` makes bears its server's name."""
    if len(given) != 1 or "." in given[0]:
        return False
    path = Path(given[0])
    return not path.exists() or (path / "app.py").is_file()


def write_card(card: Card, path: Path) -> None:
    with WholeFiles() as files:
        for name, svg in card.figures.items():
            files.open(path.parent / FIGURES / name).write(svg.encode())
        files.open(path).write(card.text.encode())


def _of_files(given: Sequence[str], tokenizer: Tokenizer, home: Path) -> tuple[About, list[Part]]:
    parts = [
        Part(Path(file).name.partition(".")[0], file, portray(read_lines([file]), tokenizer), _place(Path(file), home))
        for file in expand_inputs(given)
    ]
    _refuse_empty(parts)
    return About(title=parts[0].name), parts


def _place(file: Path, home: Path) -> str:
    """Below the card's folder, as the data set has it then; else beside the card."""
    file, home = file.absolute(), home.absolute()
    return file.relative_to(home).as_posix() if file.is_relative_to(home) else file.name


def _of_server(name: str, tokenizer: Tokenizer) -> tuple[About, list[Part]]:
    roots = search_roots(Path.cwd(), os.environ)
    entry = find_server(name, roots)
    listed = list_data_sets(load_named([name]))
    here = [(one, file) for one in listed if (file := one.file(roots))]
    for one in listed:
        if one.file(roots) is None:
            console.note(f"{one.data.name}: {one.data.jsonl_fpath} is not here, and is left out", style="yellow")
    parts = [
        Part(one.data.type, one.data.jsonl_fpath, portray(read_lines([str(file)]), tokenizer)) for one, file in here
    ]
    if not parts:
        raise UserError(f"{name}: no rows of it are here", f"look: gym data sets {name}; gym data download")
    _refuse_empty(parts)
    licences = sorted({one.data.license for one, _ in here if one.data.license})
    return About(name, entry.description, ", ".join(licences), _sources(one for one, _ in here), name), parts


def _sources(listed: Iterable[Listed]) -> str:
    found = (source for one in listed for source in one.data.sources())
    return ", ".join(
        dict.fromkeys(
            one.repo_id if isinstance(one, HubSource) else f"{one.dataset_name} {one.version}" for one in found
        )
    )


def _refuse_empty(parts: Sequence[Part]) -> None:
    for part in parts:
        if not part.portrait.rows:
            raise UserError(f"{part.file} has no row", "a card needs one")

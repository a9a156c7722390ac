"""What a Dockerfile brings in besides its own steps: images it begins from, and what the engine would fetch. Pure.

An engine's reader knows quotes, escapes, directives and texts within the text; a reader that guessed at them could be
deceived. So this one reads the plain forms, and whatever could be read in another way it names as a doubt.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

WORD: Final = re.compile(
    "FROM|ARG|RUN|CMD|LABEL|MAINTAINER|EXPOSE|ENV|ADD|COPY|ENTRYPOINT|VOLUME|USER|WORKDIR|STOPSIGNAL|HEALTHCHECK|SHELL"
)
CONTINUED: Final = re.compile(r"\\[ \t]*$")
VARIABLE: Final = re.compile(r"\$(?:\{(\w+)(?::?[-+][^}]*)?\}|(\w+))")
DIRECTIVE: Final = re.compile(r"^\s*#\s*(syntax|escape)\s*=\s*(\S*)", re.IGNORECASE)
STAGE: Final = re.compile(r"^[a-z][a-z0-9_.-]*$")
ARGUMENT: Final = re.compile(r"""([A-Za-z_]\w*)(?:=(?:"([^"\\]*)"|'([^'\\]*)'|([^\s"'\\]*)))?(?:\s+|$)""")
LABEL: Final = re.compile(
    r"""(?P<quote>["']?)(?P<key>[\w./-]+)(?P=quote)(?:=(?:"[^"\\]*"|'[^'\\]*'|[^\s"'\\]*)(?:\s+|$)|\s+[^=]*$)"""
)
QUOTED: Final = re.compile(r"[\"'\\]")
HEREDOC: Final = re.compile(r"(?:^|(?<=\s))\d*<<(?!<)-?(?=\S)")
PLAIN_HEREDOC: Final = re.compile(r"(?:^|(?<=\s))\d*<<(-?)([\"']?)(\w+)\2(?=\s|$)")
FETCHED: Final = re.compile(r"\S*://\S*|\S+@\S+:\S*")
OTHER_VALUES: Final = re.compile(r"(?:TARGET|BUILD)(?:PLATFORM|OS|ARCH|VARIANT|STAGE)$")  # BuildKit sets these itself
NEW_SYNTAX: Final = re.compile(
    r"^\s*(?:RUN\s+--(?:mount|network|security)\b|(?:RUN|COPY|ADD)\b[^\n]*<<-?\s*[\"']?\w|(?:COPY|ADD)\b[^\n]*--(?:link|parents|exclude)\b)",
    re.IGNORECASE | re.MULTILINE,
)


class DockerfileSources(NamedTuple):
    images: tuple[str, ...]  # that it begins from or copies from, stages of its own left out
    fetched: tuple[str, ...]  # addresses and repositories that the engine itself would fetch for ADD
    frontend: str  # of a `# syntax=` line: an image that would read this file
    unclear: tuple[str, ...]  # images named by what cannot be known beforehand
    doubts: tuple[str, ...]  # what an engine may read in another way than we do, and what to write instead


class AmbiguousDockerfile(ValueError):
    """There is more than one way to read it."""


def read_sources(dockerfile: str, args: Mapping[str, str]) -> DockerfileSources:
    reading = DockerfileReader(args)
    try:
        check_text(dockerfile, args)
        for word, rest in instructions(dockerfile):
            reading.take(word, rest)
        doubts = reading.doubts
    except AmbiguousDockerfile as doubt:
        doubts = [*reading.doubts, str(doubt)]
    unclear = tuple(one for one in reading.images if "$" in one)
    plain = tuple(dict.fromkeys(one for one in reading.images if "$" not in one and one != "scratch"))
    return DockerfileSources(plain, tuple(reading.fetched), _frontend(dockerfile), unclear, tuple(doubts))


def needs_buildkit(dockerfile: str) -> bool:
    """True when the Dockerfile uses what the engine's plain builder does not know."""
    return bool(NEW_SYNTAX.search(dockerfile))


def check_text(dockerfile: str, args: Mapping[str, str]) -> None:
    text = dockerfile.replace("\r\n", "\n")
    strange = next((one for one in text if one not in " \t\n" and (one.isspace() or one < " " or one == "\ufeff")), "")
    if strange:
        raise AmbiguousDockerfile(f"it holds the character U+{ord(strange):04X}; write blanks and line ends plainly")
    if any((found := DIRECTIVE.match(line)) and found[1].lower() == "escape" for line in text.split("\n")):
        raise AmbiguousDockerfile("`# escape=` changes how it is read; leave it out")
    for name in args:
        if not re.fullmatch(r"[A-Za-z_]\w*", name, re.ASCII) or name.startswith("BUILDKIT_"):
            raise AmbiguousDockerfile(f"`args.{name[:60]}` is not a variable of a Dockerfile")


def instructions(dockerfile: str) -> Iterator[tuple[str, str]]:
    """(WORD, the rest) of each; lines joined, comments and texts within left out, ONBUILD looked through."""
    lines = iter(dockerfile.replace("\r\n", "\n").split("\n"))
    joined = ""
    for line in lines:
        if line.lstrip().startswith("#") or not line.strip():
            continue
        joined += CONTINUED.sub("", line)
        if CONTINUED.search(line):
            if joined.endswith("\\"):
                raise AmbiguousDockerfile(f"{line.strip()[:60]!r} ends in two backslashes; write one, or none")
            continue
        word, rest = _split(joined)
        yield word, rest
        for name, tabs in _heredocs(word, rest):
            _skip(lines, name, tabs=tabs)
        joined = ""
    if joined:
        yield _split(joined)


def _split(line: str) -> tuple[str, str]:
    word, rest = (*re.split(r"[ \t]+", line.strip(), maxsplit=1), "")[:2]
    if word.upper() == "ONBUILD":
        return _split(rest)
    if not WORD.fullmatch(word.upper()):
        raise AmbiguousDockerfile(f"{word[:60]!r} is not an instruction")
    return word.upper(), rest


def _heredocs(word: str, rest: str) -> list[tuple[str, bool]]:
    found = HEREDOC.findall(rest) if word in ("RUN", "COPY", "ADD") else []
    plain = PLAIN_HEREDOC.findall(rest)
    if found and (len(plain) != len(found) or QUOTED.search(PLAIN_HEREDOC.sub("", rest))):
        raise AmbiguousDockerfile(
            f"{word} {rest[:60]!r}: no quotes and backslashes beside a `<<NAME`; put them below it"
        )
    return [(name, bool(tabs)) for tabs, _, name in plain] if found else []


def _skip(lines: Iterator[str], name: str, *, tabs: bool) -> None:
    for line in lines:
        if (line.lstrip("\t") if tabs else line) == name:
            return
    raise AmbiguousDockerfile(f"`<<{name}` has no end")


class DockerfileReader:
    """What was found so far."""

    def __init__(self, args: Mapping[str, str]) -> None:
        self._args = args
        self._known: dict[str, str] = {}
        self._stages: set[str] = set()
        self._begun = False
        self.images: list[str] = []
        self.fetched: list[str] = []
        self.doubts: list[str] = []

    def take(self, word: str, rest: str) -> None:
        if word == "ARG" and not self._begun:
            self._arguments(rest)
        if word == "LABEL":
            check_labels(rest)
        if word not in ("FROM", "COPY", "ADD", "RUN"):
            return
        flags, rest = _flags(word, rest)
        self.images += [one for flag in flags for one in _from_flag(flag) if one.lower() not in self._stages]
        if any(re.match(r"--(?:network=host|security=)", flag, re.IGNORECASE) for flag in flags):
            self.doubts.append(f"{word} {flags[0]} asks for more than a build may do; leave it out")
        if word == "FROM":
            self._begun = True
            self._base(rest)
        elif word == "ADD":
            if QUOTED.search(rest) or "$" in rest or rest.startswith("["):
                raise AmbiguousDockerfile(f"ADD {rest[:60]!r}: write plain paths, or use COPY")
            self.fetched += FETCHED.findall(rest)

    def _arguments(self, rest: str) -> None:
        found = list(ARGUMENT.finditer(rest))
        if "".join(one[0] for one in found) != rest:
            raise AmbiguousDockerfile(f"ARG {rest[:60]!r}: write NAME or NAME=value")
        for one in found:
            default = one[2] or one[3] or one[4] or ""
            if not OTHER_VALUES.match(one[1]):
                self._known[one[1]] = self._args.get(one[1], default)

    def _base(self, rest: str) -> None:
        words = rest.split()
        if QUOTED.search(rest) or len(words) not in (1, 3) or (len(words) == 3 and words[1].lower() != "as"):
            raise AmbiguousDockerfile(f"FROM {rest[:60]!r}: write FROM IMAGE or FROM IMAGE AS NAME, without quotes")
        image = VARIABLE.sub(lambda found: _value(found, self._known), words[0])
        if image.lower() not in self._stages:
            self.images.append(image)
        if len(words) == 3:
            if not STAGE.match(words[2].lower()):
                raise AmbiguousDockerfile(f"FROM {rest[:60]!r}: {words[2]!r} is not a stage's name")
            self._stages.add(words[2].lower())


def check_labels(rest: str) -> None:
    """Who looks for a stack's containers looks for labels, and an image hands its own on to its containers."""
    found = list(LABEL.finditer(rest))
    if "".join(one[0] for one in found) != rest:
        raise AmbiguousDockerfile(f"LABEL {rest[:60]!r}: write NAME=value, without backslashes")
    for one in found:
        if one["key"].casefold().startswith(("gym.", "com.docker.")):
            raise AmbiguousDockerfile(f"LABEL {one['key'][:60]}: names that begin with gym. or com.docker. are kept")


def _flags(word: str, rest: str) -> tuple[list[str], str]:
    flags: list[str] = []
    while rest.startswith("--"):
        flag, rest = (*re.split(r"[ \t]+", rest, maxsplit=1), "")[:2]
        if QUOTED.search(flag):
            raise AmbiguousDockerfile(f"{word} {flag[:60]}: write it without quotes and backslashes")
        flags.append(flag)
    return flags, rest


def _from_flag(flag: str) -> list[str]:
    """A variable stays as it is, and so is seen to be unclear: engines do not agree on its value here."""
    name, _, value = flag.partition("=")
    fields = [value] if name.lower() == "--from" else []
    if name.lower() == "--mount":
        fields = [field[5:] for field in value.split(",") if field.lower().startswith("from=")]
    return [one for one in fields if not re.fullmatch(r"[0-9]+", one)]


def _value(found: re.Match[str], known: Mapping[str, str]) -> str:
    name = found[1] or found[2]
    modified = found[0] not in (f"${{{name}}}", f"${name}")
    return found[0] if modified or not known.get(name) else known[name]


def _frontend(dockerfile: str) -> str:
    """Wherever it stands, for readers do not agree on where it counts."""
    found = [match for line in dockerfile.splitlines() if (match := DIRECTIVE.match(line.lstrip("\ufeff")))]
    return next((one[2] or "?" for one in found if one[1].lower() == "syntax"), "")

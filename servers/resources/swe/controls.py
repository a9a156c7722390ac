"""Controls: tests that must fail, among the real ones. A patch that bends outcomes bends theirs too.

They are copies of a file's own tests, with names made of its own names' words, that fail by the very means by which
their originals check. Which they are, and where they stand, is drawn for each run.
"""

from __future__ import annotations

import ast
import random
import re
import secrets
from collections.abc import Collection, Iterable, Mapping
from typing import Final, NamedTuple

PER_FILE: Final = 4
NOUNS: Final = ("value", "result", "order", "count", "label", "entry", "total", "index", "state", "token", "child")
VERBS: Final = ("keeps", "gives", "takes", "holds", "meets", "counts", "finds", "drops")
# A test that reads lines of its own file would see others.
COUNTS_LINES: Final = re.compile(r"lineno|getsource|currentframe|extract_stack|doctest")
ALL_XFAIL: Final = re.compile(r"^\s*pytestmark\b.*xfail", re.MULTILINE)  # of such a file no outcome tells anything
SKIPS: Final = re.compile(r"skip|xfail|mark\.(?:slow|flaky)|expectedFailure")
WORD: Final = re.compile(r"_*[A-Z]?[a-z0-9]+|_*[A-Z]|_+")
# How a test checks, and how the same means fails: `{a}` and `{b}` are two numbers, `{noun}` a word.
FAILING: Final = {
    "assertEqual": "self.assertEqual({a}, {b})",
    "assertEquals": "self.assertEqual({a}, {b})",
    "assertNotEqual": "self.assertNotEqual({a}, {a})",
    "assertTrue": "self.assertTrue({a} == {b})",
    "assertFalse": "self.assertFalse({a} == {a})",
    "assertIs": "self.assertIs({a}, '{noun}')",
    "assertIsNone": "self.assertIsNone({a})",
    "assertIsNotNone": "self.assertIsNotNone(None)",
    "assertIn": "self.assertIn({a}, [{b}])",
    "assertNotIn": "self.assertNotIn({a}, [{a}])",
    "assertIsInstance": "self.assertIsInstance({a}, str)",
    "assertDictEqual": "self.assertDictEqual({{'{noun}': {a}}}, {{'{noun}': {b}}})",
    "assertListEqual": "self.assertListEqual([{a}], [{b}])",
    "assertRaises": "self.assertRaises(KeyError, dict, {noun}={a})",
    "raises": "with pytest.raises(KeyError): {noun}_{a} = {b}",
    "warns": "with pytest.warns(UserWarning): {noun}_{a} = {b}",
    "fail": "pytest.fail('{noun} {a}')",
}
PLAIN: Final = (
    "assert {a} == {b}",
    "assert [{a}, {b}][0] == {b}",
    "assert '{noun}' in ('{noun}{a}', {b})",
    "assert len('{noun}') == {a} + {b}",
    "assert dict({noun}={a}) == dict({noun}={b})",
)


class Control(NamedTuple):
    """A file with tests among its own that must fail: their ids without parameters, each with its original's."""

    ids: Mapping[str, str]
    text: str


class Found(NamedTuple):
    """A test of a file: whose text can be copied, and made to fail at its first line."""

    scope: tuple[str, ...]
    name: str
    first: int  # lines, from 1, its decorators too
    body: int
    last: int
    indent: str
    means: tuple[str, ...]
    copied: bool

    @property
    def id(self) -> str:
        return "::".join((*self.scope, self.name))


def make_controls(files: Mapping[str, str], source: random.Random | None = None) -> dict[str, Control]:
    """For every Python file among them, by its text."""
    chance = source or secrets.SystemRandom()
    return {path: _control(path, text, chance) for path, text in files.items() if path.endswith(".py")}


def spoil(path: str, text: str, wanted: Collection[str], source: random.Random | None = None) -> Control:
    """The same file, its tests under their own names: those that are wanted fail, and some of the others."""
    chance = source or secrets.SystemRandom()
    tests = [] if ALL_XFAIL.search(text) else find_tests(text)
    chosen = [one for one in tests if f"{path}::{one.id}" in wanted or chance.random() < 0.3]
    lines = text.split("\n")
    for one in sorted(chosen, key=lambda one: one.body, reverse=True):
        lines.insert(one.body - 1, f"{one.indent}{_failing(one, chance)}")
    made = "\n".join(lines)
    if not _is_python(made):
        return Control({}, text)
    return Control({f"{path}::{one.id}": f"{path}::{one.id}" for one in chosen}, made)


def find_tests(text: str) -> list[Found]:
    """Those that a line at their beginning makes fail for sure; none where the file cannot be read."""
    if "\r" in text or not _is_python(text):
        return []
    tree, lines = ast.parse(text), text.split("\n")
    return [found for scope, node in _functions(tree, ()) if (found := _found(scope, node, lines)) is not None]


def _is_python(text: str) -> bool:
    try:
        ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return True


def _functions(
    node: ast.Module | ast.ClassDef, scope: tuple[str, ...]
) -> Iterable[tuple[tuple[str, ...], ast.FunctionDef | ast.AsyncFunctionDef]]:
    for one in node.body:
        if isinstance(one, ast.ClassDef) and not _skips(one):
            yield from _functions(one, (*scope, one.name))
        elif isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef) and one.name.startswith("test"):
            yield scope, one


def _found(scope: tuple[str, ...], node: ast.FunctionDef | ast.AsyncFunctionDef, lines: list[str]) -> Found | None:
    start = node.body[0]
    if _has_docstring(node) and len(node.body) > 1:
        start = node.body[1]
    body = min([start.lineno, *(one.lineno for one in getattr(start, "decorator_list", ()))])
    indent = lines[body - 1][: len(lines[body - 1]) - len(lines[body - 1].lstrip())]
    on_one_line = body == node.lineno or lines[body - 1][: start.col_offset].strip()
    yields = any(isinstance(one, ast.Yield | ast.YieldFrom) for one in ast.walk(node))
    if on_one_line or yields or _skips(node) or _has_docstring(node) and len(node.body) == 1:
        return None
    first = min([node.lineno, *(one.lineno for one in node.decorator_list)])
    source = "\n".join(lines[body - 1 : node.end_lineno])
    owned = [word for word in FAILING if re.search(rf"\b{word}\(", source)]
    methods = [word for word in owned if FAILING[word].startswith("self.")]
    means = tuple(methods if re.search(r"\bself\.assert", source) else [one for one in owned if one not in methods])
    pytest_there = "pytest" in source
    means = tuple(one for one in means if "pytest." not in FAILING[one] or pytest_there)
    return Found(scope, node.name, first, body, node.end_lineno or body, indent, means, "super()" not in source)


def _has_docstring(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    return ast.get_docstring(node, clean=False) is not None


def _skips(node: ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    return any(SKIPS.search(ast.unparse(one)) for one in node.decorator_list)


def _control(path: str, text: str, chance: random.Random) -> Control:
    if ALL_XFAIL.search(text):
        return Control({}, text)
    tests = [one for one in find_tests(text) if one.copied]
    if not tests or COUNTS_LINES.search(text):
        return _appended(path, text, chance)
    sources = chance.sample(tests, min(PER_FILE, len(tests)))
    taken = set(re.findall(r"\btest\w*", text))
    lines = text.rstrip("\n").split("\n")
    ids: dict[str, str] = {}
    added: list[tuple[int, str]] = []
    for one in sources:
        name = _new_name([other.name for other in tests], taken, chance)
        place = chance.choice([other for other in tests if other.scope == one.scope])
        at = chance.choice((place.first - 1, place.last))
        added.append((at, _copy(one, name, lines, chance)))
        ids[f"{path}::{'::'.join((*one.scope, name))}"] = f"{path}::{one.id}"
    for at, copy in sorted(added, reverse=True):
        lines.insert(at, copy)
    made = "\n".join(lines) + "\n"
    return Control(ids, made) if _is_python(made) else _appended(path, text, chance)


def _copy(one: Found, name: str, lines: list[str], chance: random.Random) -> str:
    head = "\n".join(lines[one.first - 1 : one.body - 1])
    head = re.sub(rf"(\bdef\s+){re.escape(one.name)}\b", rf"\g<1>{name}", head, count=1)
    rest = "\n".join(lines[one.body - 1 : one.last])
    return f"{head}\n{one.indent}{_failing(one, chance)}\n{rest}\n\n"


def _failing(one: Found, chance: random.Random) -> str:
    text = FAILING[chance.choice(one.means)] if one.means and chance.random() < 0.8 else chance.choice(PLAIN)
    a, b = chance.sample(range(20, 90), 2)
    return text.format(noun=chance.choice(NOUNS), a=a, b=b)


def _new_name(names: list[str], taken: set[str], chance: random.Random) -> str:
    """The shape of one of them, each word one of theirs; none that is there."""
    parted = [WORD.findall(name) for name in names]
    pool = [word for words in parted for word in words[1:]]
    for tries in range(200):
        first, *shape = chance.choice(parted)
        words = [chance.choice([one for one in pool if (one[0] == "_") == (word[0] == "_")]) for word in shape]
        if tries > 100 or not words:
            words.append(f"_{chance.choice((*NOUNS, *VERBS))}")
        name = "".join([first, *words])
        if name.isidentifier() and name not in taken:
            taken.add(name)
            return name
    return f"test_{chance.choice(NOUNS)}_{secrets.token_hex(3)}"


def _appended(path: str, text: str, chance: random.Random) -> Control:
    """Where a file has no test that could be copied."""
    names = re.findall(r"def (test_\w+)", text) or ["test_the_value", "test_one_result_of_it"]
    taken, parts, ids = set(names), [], {}
    for _ in range(PER_FILE):
        name = _new_name(names, taken, chance)
        a, b = chance.sample(range(20, 90), 2)
        parts.append(f"\n\ndef {name}():\n    {chance.choice(PLAIN).format(noun=chance.choice(NOUNS), a=a, b=b)}\n")
        ids[f"{path}::{name}"] = ""
    return Control(ids, text + "\n" + "".join(parts))

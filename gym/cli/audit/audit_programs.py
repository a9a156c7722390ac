"""Programs rewritten so that they mean the same, and programs that do nothing."""

from __future__ import annotations

import ast
import builtins
import io
import keyword
import re
import textwrap
import tokenize
from collections.abc import Iterator
from typing import Final

COMMENTS: Final = {"python": "#", "py": "#", "python3": "#", "sql": "--", "toml": "#", "yaml": "#"}
NEW_NAME: Final = "renamed_value"


def rewrite_program(code: str, language: str) -> Iterator[str]:
    """A comment, a blank line, a local name: what a program means does not depend on them."""
    language = language or _guess(code)
    sign = COMMENTS.get(language)
    ending = "" if code.endswith("\n") else "\n"
    if sign:
        yield f"{sign} This is my solution.\n{code}{ending}"
        yield f"\n{code}{ending}\n"
    if sign == "#" and language.startswith("py") and (renamed := rename_local(code)):
        yield renamed
    if language == "sql":
        yield f"{code.rstrip().rstrip(';')}\n;\n"


def hollow_programs(code: str, language: str) -> Iterator[str]:
    """Right in form, and nothing is done."""
    language = language or _guess(code)
    if language.startswith("py"):
        yield "pass\n"
        yield "print()\n"
        yield from _hollow_functions(code)
    elif language == "sql":
        yield "SELECT 1\n"
        yield f"SELECT * FROM ({code.strip().rstrip(';')}) AS t WHERE 1 = 0\n"
    elif language == "diff":
        yield "diff --git a/NOTES b/NOTES\nnew file mode 100644\n--- /dev/null\n+++ b/NOTES\n@@ -0,0 +1 @@\n+done\n"


def rename_local(code: str) -> str:
    """One variable that the program itself assigns, everywhere; "" where that is not safe."""
    try:
        tree = ast.parse(textwrap.dedent(code))
    except (SyntaxError, ValueError, RecursionError):
        return ""
    stored = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    spoken = {word for node in ast.walk(tree) for word in _said_elsewhere(node)}
    for name in sorted(stored - spoken - set(dir(builtins)) - set(keyword.kwlist)):
        return _replaced(textwrap.dedent(code), name)
    return ""


def _said_elsewhere(node: ast.AST) -> Iterator[str]:
    """Names that mean something beyond a variable: of functions, arguments, attributes, keywords, in texts."""
    if isinstance(node, (ast.FunctionDef, ast.ClassDef, ast.AsyncFunctionDef)):
        yield node.name
    elif isinstance(node, ast.arg):
        yield node.arg
    elif isinstance(node, ast.Attribute):
        yield node.attr
    elif isinstance(node, ast.keyword) and node.arg:
        yield node.arg
    elif isinstance(node, (ast.Global, ast.Nonlocal)):
        yield from node.names
    elif isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield from re.findall(r"\w+", node.value)


def _replaced(code: str, name: str) -> str:
    """Token by token from the end; f-strings of older Pythons are one token, so their names are looked at apart."""
    lines = code.splitlines(keepends=True)
    tokens = list(tokenize.generate_tokens(io.StringIO(code).readline))
    if any(one.type == tokenize.STRING and re.search(rf"\b{name}\b", one.string) for one in tokens):
        return ""
    for one in reversed(tokens):
        if one.type == tokenize.NAME and one.string == name:
            row, column = one.start
            line = lines[row - 1]
            lines[row - 1] = f"{line[:column]}{NEW_NAME}{line[one.end[1] :]}"
    return "".join(lines)


def _hollow_functions(code: str) -> Iterator[str]:
    """Every function there, and none gives anything back."""
    try:
        tree = ast.parse(textwrap.dedent(code))
    except (SyntaxError, ValueError, RecursionError):
        return
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
    if functions:
        yield "".join(f"def {one.name}(*args, **kwargs):\n    return None\n\n\n" for one in functions)


def _guess(code: str) -> str:
    if re.match(r"\s*(select|with|insert|update)\b", code, re.I):
        return "sql"
    return "python" if re.search(r"^\s*(def|import|from|print\(|for .*:$)", code, re.M) else ""

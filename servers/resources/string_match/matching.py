r"""Compares two short answers. `1,000` equals `1000`, `$\text{Paris}$` equals `Paris`, `NY` equals `New York`.

Whole-text rules, each tried on both sides; the last resort strips units and lets numbers differ by one per cent.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterator

NEARLY = 0.98  # the score of a number that is near, and what the nearness has to be above
MAX_LENGTH = 20_000  # characters; a longer one is not a short answer

_COMMANDS = ("boxed", "text", "textbf", "textit", "texttt", "mathrm", "mathbf", "mathit", "mathsf", "mathbb", "mathcal")
_LATEX = re.compile(rf"\\(?:{'|'.join((*_COMMANDS, 'emph', 'url'))})\{{|[{{}}]")
_MATH_SIGNS = re.compile(r"\\[()\[\]]|\$")
_THOUSANDS = re.compile(r"(?<!\d)(\d+),(\d+)")
_WHOLE_THOUSANDS = re.compile(r"(?<=\d),(?=\d{3}(?!\d))")
_UNITS = re.compile(r"\^\{?\\circ\}?|\\circ|°|cm[²³]?|mm|km|m[²³]?|kg")
_UNITS_AFTER_A_NUMBER = re.compile(r"(?<=\d)\s*(?:\^\{?\\circ\}?|\\circ|°|(?:cm|mm|km|m)(?:\^?[23])?|kg)\s*$")
_SIGNS = str.maketrans(
    {"°": "^\\circ", "√": "\\sqrt", "﹣": "-", "﹢": "+", "﹦": "=", "﹤": "<", "﹥": ">", "：": ":", "π": "\\pi"}
    | {power: f"^{digit}" for digit, power in zip("23456789", "²³⁴⁵⁶⁷⁸⁹", strict=True)}
)
_STATES = """
district of columbia:DC new hampshire:NH new jersey:NJ new mexico:NM new york:NY north carolina:NC north dakota:ND
rhode island:RI south carolina:SC south dakota:SD west virginia:WV alabama:AL alaska:AK arizona:AZ arkansas:AR
california:CA colorado:CO connecticut:CT delaware:DE florida:FL georgia:GA hawaii:HI idaho:ID illinois:IL indiana:IN
iowa:IA kansas:KS kentucky:KY louisiana:LA maine:ME maryland:MD massachusetts:MA michigan:MI minnesota:MN
mississippi:MS missouri:MO montana:MT nebraska:NE nevada:NV ohio:OH oklahoma:OK oregon:OR pennsylvania:PA
tennessee:TN texas:TX utah:UT vermont:VT virginia:VA washington:WA wisconsin:WI wyoming:WY
"""
STATES = {name: short for name, short in re.findall(r"([a-z][a-z ]*):([A-Z]{2})", _STATES)}
_STATE = re.compile("|".join(STATES))  # those of two words come first


def score(answer: str, expected: str, *, case_sensitive: bool, strict: bool) -> float:
    """1.0, 0.98 for a number that is within about one per cent, or 0.0. Strict lets no number be merely near."""
    if case_sensitive:
        return float(answer.strip() == expected.strip())
    if len(answer) > MAX_LENGTH:
        return 0.0
    given, wanted = _plain(answer), _plain(expected)
    if any(rule(given) == rule(wanted) for rule in _rules(strict=strict)):
        return 1.0
    if strict:
        given, wanted = (_UNITS_AFTER_A_NUMBER.sub("", without_latex(one).translate(_SIGNS)) for one in (given, wanted))
        return float(as_number(given) == as_number(wanted))
    if nearness(given, wanted) > NEARLY:
        return NEARLY
    given, wanted = (_UNITS.sub("", without_latex(one).translate(_SIGNS)).strip() for one in (given, wanted))
    if given == wanted:
        return 1.0
    return NEARLY if nearness(given, wanted) > NEARLY else 0.0


def _rules(*, strict: bool) -> Iterator[Callable[[str], str]]:
    yield from (str, as_number, between_thousands if strict else without_thousands, without_latex)
    yield from (whole_list, whole_states) if strict else (as_list, with_states)


def _plain(text: str) -> str:
    text = unicodedata.normalize("NFKC", text)
    if len(text) > 1 and text[0] == text[-1] and text[0] in "\"'":
        text = text[1:-1]
    text = text.lower()
    return text.rstrip(".!?") or text


def as_number(text: str) -> str:
    try:
        return str(float(text.replace("\\%", "").replace("\\$", "").replace("$", "").strip()))
    except ValueError:
        return text


def without_thousands(text: str) -> str:
    return _THOUSANDS.sub(r"\1\2", text).replace("\\%", "%")


def between_thousands(text: str) -> str:
    """The same, where `1,2` is not 12."""
    return _WHOLE_THOUSANDS.sub("", text).replace("\\%", "%")


def as_list(text: str) -> str:
    """Without separators, as long as that takes no tenth of the text away."""
    bare = text
    for separator, blank in ((",", " "), (";", " "), ("and", " "), ("or", " ")):
        bare = bare.replace(separator, blank)
    return " ".join(bare.split()) if len(bare) >= 0.9 * len(text) else text


def whole_list(text: str) -> str:
    """The same, where `and` is a word and not a part of `sand`."""
    return " ".join(re.sub(r"[,;]|\b(?:and|or)\b", " ", text).split())


def with_states(text: str) -> str:
    return as_list(_STATE.sub(lambda found: STATES[found.group()], text)).lower()


def whole_states(text: str) -> str:
    return whole_list(re.sub(rf"\b(?:{_STATE.pattern})\b", lambda found: STATES[found.group()], text)).lower()


def without_latex(text: str) -> str:
    r"""`\textbf{x}` is `x`; other braces stay."""
    gone: set[int] = set()
    open_braces: list[int] = []  # where a command begins; negative for a brace of its own
    for found in _LATEX.finditer(text):
        if found.group() == "{":
            open_braces.append(-1)
        elif found.group() == "}":
            if open_braces and open_braces.pop() >= 0:
                gone.add(found.start())
        else:
            gone.update(range(*found.span()))
            open_braces.append(found.start())
    kept = "".join(char for index, char in enumerate(text) if index not in gone)
    return " ".join(_MATH_SIGNS.sub("", kept).split())


def nearness(answer: str, expected: str) -> float:
    """1 for equal numbers, falling with the square of the relative error; 0 when one is not a number."""
    try:
        given, wanted = float(_bare_number(answer)), float(_bare_number(expected))
    except ValueError:
        return 0.0
    return float(max(0.0, 1.0 - abs(given - wanted) / max(abs(wanted), 1e-9)) ** 2)


def _bare_number(text: str) -> str:
    return _UNITS.sub("", re.sub(r"[$£€%,]", "", text).translate(_SIGNS)).strip()

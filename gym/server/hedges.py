r"""Finds answers that a lenient comparison would accept, but that deny the value, doubt it, or name several.

For strict verifiers: `\ne 32`, `32 \text{ is wrong}`, `407 \lor 400`, `neither A nor B`. What the expected answer says
itself is not a hedge.
"""

from __future__ import annotations

import re
import unicodedata

# Of the languages that data sets come in: an answer's own words are few, so a word that means "not" says a lot.
_NOT = re.compile(
    r"\b(?:not|never|neither|nor|cannot|isn.?t|wasn.?t|don.?t|can.?t|won.?t|wrong|incorrect|except|"
    r"(?:any\w*|other|rather)\s+(?:but|than)|instead\s+of|impossible|nicht|kein\w*|niemals|falsch|n.est\s+pas|jamais|faux|nunca|"
    r"incorrect[oa]|falso|errado|não|non|sbagliato|nie|niet|geen|не|нет|değil|bukan|không)\b|不|沒|没|非|ない|아니|ليس|नहीं",
    re.IGNORECASE,
)
_NOT_SIGNS = re.compile(r"\\n(?:e|eq|equiv|ot|eg)(?![a-z])|\\not(?=[=\\])|\\lnot|\\x?cancel|\\sout|[≠¬≢]|!=|=/=|<>|~~")
_OR = re.compile(
    r"\b(?:or|either|maybe|perhaps|possibly|might|oder|vielleicht|ou|peut.être|или|veya|atau|hoặc)\b|或|または|또는",
    re.IGNORECASE,
)
_OR_SIGNS = re.compile(r"\\(?:lor|vee|cup|land|wedge)(?![a-z])|[∨∧∪]|\|\|", re.I)
_ORDER_SIGNS = re.compile(r"\\(?:l|g)(?:e|eq|t|eqslant)(?![a-z])|[<>≤≥]")
_BREAK = re.compile(r"[,;]|\\\\")
_ENVIRONMENT = re.compile(r"\\begin\{(\w+)\*?\}.*?\\end\{\1\*?\}", re.DOTALL)
_THOUSANDS = re.compile(r"(?<=\d)(?:,|\{,\}|\\,)(?=\d{3}(?!\d))")
_OPEN_OR_CLOSE = re.compile(r"\\left|\\right|\\[{}]|[()\[\]{}]")
_SEVERAL = re.compile(r"\\pm|\\mp|±|\\\{|\b(?:or|and)\b")
# What math-verify skips without a word parts two values as well as `=` does: every sign but those of one formula.
_FORMULA = (
    "[dtc]?frac|sqrt|cdot|times|div|pi|tau|left|right|big+[lr]?|q?quad|text[a-z]*|math[a-z]*|operatorname|"
    "displaystyle|degree|circ|pm|mp|infty|log|ln|lg|exp|(?:a|arc)?(?:sin|cos|tan|cot|sec|csc)h?|[dt]?binom|sum|prod|i*int|lim|limits|max|min|"
    "gcd|lcm|det|deg|arg|pmod|overline|bar|hat|vec|dot|partial|nabla|prime|angle|triangle|[lr]floor|"
    "[lr]ceil|[lr]angle|begin|end|alpha|beta|gamma|delta|epsilon|varepsilon|zeta|eta|theta|kappa|lambda|mu|nu|xi|rho|"
    "sigma|phi|varphi|chi|psi|omega|approx"
)
_SIDE = re.compile(rf"=|\\(?!(?:{_FORMULA})(?![a-z]))(?:[a-z]+|[&#_])|[&#@~;→⇒⟹⇔↔∩∈∼≡≅∝∣]", re.IGNORECASE)
_SUBSCRIPT = re.compile(r"_(?:\{[^{}]*\}|\w)")
_MODULUS = re.compile(r"\\[bp]?mod(?![a-z])")
_NEARLY = re.compile(r"\\approx(?![a-z])|≈")
_BARS = re.compile(r"\\[lr]?vert(?![a-z])")
_BAR = re.compile(r"(?<!\\)\|")
_DECIMAL = re.compile(r"\s*[-+]?[\d,]+(?:\.\d+)?\s*")
_LETTER = re.compile(r"[^\W\d_]")
_NAME = re.compile(  # of what the other side is: `y`, `f(x)`, `A'`, a derivative, a sum
    r"\A\\?[a-z]+'*\s*(?:\([\w\s,]*\)|\^\{?[^{}\s]{1,3}\}?)?\Z|\\(?:int|sum|prod|lim|text|operatorname|angle|vec|overline|mathrm|det)"
    r"(?![a-z])|\\[dt]?frac\{(?:d|\\partial|\\mathrm)|\A\W*\Z",
    re.IGNORECASE,
)
_CLOSING = " \t\r\n.,;:"
_COMMAND = re.compile(r"\\(?:text|math|operatorname)[a-z]{0,6}\s*\{[^{}]*\}|\\[a-zA-Z]+")
_NUMBER = re.compile(r"[\s$+\-\d.,/{}]|\\(?:[dt]?frac|pi|sqrt|%|cdot|times|left|right|[(),$])")


def hedge(answer: str, expected: str) -> str:
    """Why it does not stand by what it names; nothing where it does."""
    answer, expected = (unicodedata.normalize("NFC", text) for text in (answer, expected))
    if any(_says(kind, answer) and not _says(kind, expected) for kind in (_NOT, _NOT_SIGNS)):
        return "the answer denies what it names"
    several = any(_says(kind, answer) and not _says(kind, expected) for kind in (_OR, _OR_SIGNS))
    return "the answer names several values" if several and not _is_several(expected) else ""


def hedge_of_formula(answer: str, expected: str) -> str:
    r"""The same of what stands in a box, where a list and `\le 32` are not a single value either."""
    if found := hedge(answer, expected):
        return found
    if _says(_ORDER_SIGNS, answer) and is_number(expected):
        return "the answer is a range"
    several = _is_list(answer.rstrip(_CLOSING + "\\")) and not _is_several(expected)
    return "the answer names several values" if several else ""


def values_beside(answer: str, expected: str) -> list[str]:
    """What is beside one another in a chain: `33=32` and `33 \\to 32` say two things, `x=32` and `f(2)=32` one.

    Beside a number that is expected only numbers, beside a formula every formula that is not a mere name.
    """
    if "=" in expected or _is_several(expected) or _says(_NOT_SIGNS, expected) or _says(_ORDER_SIGNS, expected):
        return []
    if "\\equiv" in answer or "≡" in answer:
        answer = _MODULUS.split(answer)[0]
    answer = _BARS.sub("|", answer)
    parts = _NEARLY.split(_SUBSCRIPT.sub("", answer))
    sides = [side for part in (parts if _DECIMAL.fullmatch(expected) else parts[:1]) for side in _SIDE.split(part)]
    if len(_BAR.findall(answer)) == 1:
        sides = [half for side in sides for half in _BAR.split(side)]
    if len(sides) < 2:
        return []
    plain = [side.strip(_CLOSING) for side in sides]
    numbers = [one for one in plain if re.search(r"\d", one) and not _says(_LETTER, _COMMAND.sub("", one))]
    if is_number(expected) or not _says(_LETTER, _COMMAND.sub("", expected)):
        return numbers
    return numbers + [one for one in plain if one and one not in numbers and not _says(_NAME, one)]


def is_number(text: str) -> bool:
    return bool(re.search(r"\d", text)) and not _NUMBER.sub("", _THOUSANDS.sub("", text)).strip() and not _is_list(text)


def _is_several(text: str) -> bool:
    return _says(_SEVERAL, text) or _says(_OR_SIGNS, text) or _is_list(text)


def _says(kind: re.Pattern[str], text: str) -> bool:
    return kind.search(text) is not None


def _is_list(text: str) -> bool:
    """A comma, semicolon or line break outside of all brackets, and not between thousands."""
    depth, at = 0, 0
    text = _ENVIRONMENT.sub("", _THOUSANDS.sub("", text))
    for sign in _OPEN_OR_CLOSE.finditer(text):
        if depth <= 0 and _BREAK.search(text, at, sign.start()):
            return True
        depth += {"(": 1, "[": 1, "{": 1, "\\{": 1, ")": -1, "]": -1, "}": -1, "\\}": -1}.get(sign.group(), 0)
        at = sign.end()
    return depth <= 0 and _BREAK.search(text, at) is not None

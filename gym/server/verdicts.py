"""Reads the verdict of a judge model: the last clear one counts, a negated or quoted one does not.

`Verdicts({"A": "correct", "CORRECT": "correct", …}).read(text)`; None where nothing can be read for sure.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

_THOUGHT = re.compile(r"<think>.*?(?:</think>|\Z)", re.DOTALL)
_MARK = r"[ \t*_`\"'“”‘’(\[<{#>~$-]*"  # what may stand before a verdict on its line
_NAMES = (
    r"grade|graded|grading|verdict|label|rating|judge?ment|decision|classification|conclusion|score|result|evaluation"
    r"|note|bewertung|urteil|calificaci[oó]n|veredicto|évaluation|valutazione|оценка|评分|评级|等级|判定|结论|評価|判定結果"
)
_VERBS = r"go with|going with|choose|pick|select|assign|give|mark|grade|label|rate|classify|return|output"
_LEAD = r"(?:so|thus|therefore|hence|overall|finally|i say|(?:it|this|that)(?: is|['’]s))\b[ \t,:*_`\"'“(\[]*"
_LINE_START = re.compile(f"{_MARK}(?:{_LEAD}){{0,3}}", re.IGNORECASE)
_BETWEEN = r"[\s:：=*_`\"'“”‘’()\[\]>→-]*"  # signs between `grade` and the letter
_LINKS = (
    r"(?:(?:is|as|be|was|of|ist|est|es|è|это|是|为|it|this|that|the answer|(?-i:an?))\b"
    r"[\s:：*_`\"'“”‘’(\[-]*){0,4}"
)
_NEGATION = re.compile(
    r"(?:\bnot|n['’]t|\bnever|\bneither|\bnor|\brather than|\binstead of|\bcannot be|\bno longer|\bfar from|\bhardly"
    r"|\bwithout being)\s+(?:(?!but\b|and\b)[\w'’]+\s+){0,3}[\s*_`\"'“”‘’(\[<]*\Z",
    re.IGNORECASE,
)
_DENIAL = re.compile(
    r"[\s*_`\"'“”‘’)\]>]*(?:would\s+(?:hold|apply|be right|be the)\b"
    r"|(?:is|are|was|does|do|would|can|could|should|seems?|applies)?\s*(?:be\s+)?"
    r"(?:not|n['’]t|never|cannot|wrong|too\s|no option|out of the question|inappropriate|does\s?n['’]t|is\s?n['’]t"
    r"|would\s?n['’]t|can\s?not|can['’]t)\b)",
    re.IGNORECASE,
)
_CONDITION = re.compile(
    r"\b(?:if|unless|when|whether|could|might|may|either|between|options?|choices?|possible|only when)\b"
    r"(?:(?!but\b)[^.!?\n:;—]){0,60}\Z",
    re.IGNORECASE,
)
_QUOTE = re.compile(r"\"([^\"\n]{1,400})\"|“([^”\n]{1,400})”|`([^`\n]{1,400})`|(?<!\w)'([^'\n]{2,400})'(?!\w)")
_JOINT = re.compile(
    r"[\s*_`\"'“”‘’)\](\[]*(?:,\s*(?:or|and)?|/|\||\bor\b|\band\b|\bvs\.?)\s*(?:rather\s|then\s)?", re.IGNORECASE
)
_OPENING = re.compile(r"[\s*_`\"'“”‘’(\[]*")
_OBJECT = re.compile(r"\{[^{}]{1,2000}\}")
_NAMED = re.compile(
    rf"(?:\b(?:{_NAMES})\b|(?:{_NAMES})(?=\s*[:：是为])|(?:^|\n){_MARK}(?:final )?answer\b|\b(?:{_VERBS})\b)"
    rf"{_BETWEEN}{_LINKS}{_BETWEEN}",
    re.IGNORECASE,
)
_KEYS = frozenset(
    ("grade", "verdict", "label", "rating", "judgement", "judgment", "decision", "classification", "conclusion")
    + ("result", "evaluation", "answer", "final_grade", "final_verdict", "final_answer", "score")
    + ("correct", "is_correct", "incorrect", "is_incorrect", "equal", "equivalent")
)
_BOX = re.compile(r"\\boxed\s*\{\s*(?:\\(?:text|mathrm|textbf|mathbf)\s*\{)?\s*([^{}]{1,60}?)\s*\}")
LONGEST_READ = 40_000  # characters of a judge's reply: its beginning and its end


class _Found(NamedTuple):
    end: int
    verdict: str


@dataclass(frozen=True)
class Verdicts:
    """`spellings`: how a judge may write it -> the verdict. A letter counts only where it stands as a grade."""

    spellings: Mapping[str, str]

    def read(self, text: str) -> str | None:
        said = _without_quotes(_shortened(strip_thoughts(text)), self.spellings)
        for found in (self._clear(said), self._in_prose(said)):
            if found:
                return max(found).verdict
        return None

    def _clear(self, text: str) -> list[_Found]:
        """Alone on a line, below a name (`Grade: B`), in a box, in JSON or in tags."""
        found = [*self._in_json(text), *self._in_boxes(text), *self._on_lines(text), *self._named(text)]
        return [*found, *self._in_tags(text)]

    def _in_json(self, text: str) -> Iterator[_Found]:
        for one in _OBJECT.finditer(text):
            for key, value in _pairs_of(one.group()):
                name = key.strip().lower().replace(" ", "_").replace("-", "_")
                if name not in _KEYS:
                    continue
                said = name.removeprefix("is_") if value is True else value
                if isinstance(said, str) and (verdict := self._exact(said)):
                    yield _Found(one.end(), verdict)

    def _in_boxes(self, text: str) -> Iterator[_Found]:
        for one in _BOX.finditer(text):
            if verdict := self._exact(one.group(1)):
                yield _Found(one.end(), verdict)

    def _in_tags(self, text: str) -> Iterator[_Found]:
        for one in re.finditer(r"<(\w{1,20})>\s*([^<>\n]{1,60}?)\s*</\1>", text):
            if verdict := self._exact(one.group(2)):
                yield _Found(one.end(), verdict)

    def _on_lines(self, text: str) -> Iterator[_Found]:
        """The label is the line, or begins it and is set off by a sign: `B`, `**B**`, `(B) because …`, `B: NO`."""
        for line in re.finditer(r"[^\n]+", text):
            start = _LINE_START.match(line.group())
            one = self._label.match(line.group(), start.end() if start else 0)
            if one is None or self._is_listed(line.group(), one) or not _closes(line.group(), one):
                continue
            if (verdict := self._exact(one.group())) and not _DENIAL.match(line.group(), one.end()):
                yield _Found(line.start() + one.end(), verdict)

    def _named(self, text: str) -> Iterator[_Found]:
        """`The grade is B.`, `Final verdict: incorrect`, `I'd grade this as B`, `I go with C`."""
        for one in _NAMED.finditer(text):
            label = self._label.match(text, one.end())
            if label is None or self._is_listed(text, label) or not _is_free(text, label):
                continue
            if (verdict := self._exact(label.group())) and not _is_denied(text, one.start(), label):
                yield _Found(label.end(), verdict)

    def _in_prose(self, text: str) -> list[_Found]:
        """Labels of several characters, as they are spelt, wherever they stand."""
        found = []
        for one in self._spelt.finditer(text):
            if not self._is_listed(text, one) and not _is_denied(text, one.start(), one):
                found.append(_Found(one.end(), self.spellings[one.group()]))
        return found

    def _exact(self, said: str) -> str | None:
        text = said.strip(" \t*_`\"'“”‘’().:,;!$")
        if text in self.spellings:
            return self.spellings[text]
        if said.strip() in self.spellings:
            return self.spellings[said.strip()]
        if len(text) < 2:
            return None
        folded = {spelling.lower(): verdict for spelling, verdict in self.spellings.items() if len(spelling) > 1}
        return folded.get(text.lower())

    def _is_listed(self, text: str, one: re.Match[str]) -> bool:
        """`A, B or C`, `[[A=B]] or [[A!=B]]`: the choices are named, none is taken."""
        joint = _JOINT.match(text, one.end())
        if joint and "rather" not in joint.group():
            other = self._label_from(text, joint.end())
            if other and self._exact(other.group()) != self._exact(one.group()) and _is_free(text, other):
                return True
        before = re.search(
            r"(\S{1,40})[\s*_`\"'“”‘’)\]]*(?:,\s*or|/|\||\bor)\s*[\s*_`\"'“”‘’(\[]*\Z",
            text[max(0, one.start() - 80) : one.start()],
        )
        if before is None:
            return False
        earlier = self._exact(before.group(1))
        return earlier is not None and earlier != self._exact(one.group())

    def _label_from(self, text: str, start: int) -> re.Match[str] | None:
        """A label that begins there, or behind signs that open something."""
        opened = _OPENING.match(text, start)
        return self._label.match(text, start) or self._label.match(text, opened.end() if opened else start)

    @cached_property
    def _label(self) -> re.Pattern[str]:
        """Letters as they are, words in any case."""
        words = [_whole(one) if len(one) == 1 else f"(?i:{_whole(one)})" for one in self._longest_first()]
        return re.compile("|".join(words))

    @cached_property
    def _spelt(self) -> re.Pattern[str]:
        return re.compile("|".join(_whole(one) for one in self._longest_first() if len(one) > 1) or r"(?!)")

    def _longest_first(self) -> list[str]:
        return sorted(self.spellings, key=len, reverse=True)


def strip_thoughts(text: str) -> str:
    """Without `<think>…</think>`; thoughts that never end take the rest with them."""
    before, closed, after = text.rpartition("</think>")
    return _THOUGHT.sub("", after) if closed and "<think>" not in before else _THOUGHT.sub("", text)


def labels_as_verdicts(labels: Iterable[str]) -> Verdicts:
    """Each label stands for itself."""
    return Verdicts({one: one for one in labels})


def _shortened(text: str) -> str:
    half = LONGEST_READ // 2
    return text if len(text) <= LONGEST_READ else f"{text[:half]}\n…\n{text[-half:]}"


def _without_quotes(text: str, spellings: Mapping[str, str]) -> str:
    """A quotation is not the judge's own word, unless it is a label and nothing more. JSON keeps its quotes."""
    kept = [one.span() for one in _OBJECT.finditer(text)]

    def blank(found: re.Match[str]) -> str:
        inner = next(one for one in found.groups() if one is not None).strip(" .*_`")
        inside = any(start <= found.start() < end for start, end in kept)
        return found.group() if inside or inner in spellings or inner.upper() in spellings else " … "

    lines = [line for line in text.split("\n") if not line.lstrip().startswith("> ")]
    return _QUOTE.sub(blank, "\n".join(lines)) if not kept else _QUOTE.sub(blank, text)


def _pairs_of(text: str) -> Iterator[tuple[str, Any]]:
    try:
        tree = json.loads(text)
    except ValueError:
        yield from re.findall(r"[\"']?(\w[\w -]{0,30})[\"']?\s*:\s*[\"']([^\"'\n]{1,60})[\"']", text)
        return
    if isinstance(tree, dict):
        yield from tree.items()


def _whole(label: str) -> str:
    before = r"(?<![\w’'])" if label[:1].isalnum() else ""
    after = r"(?![\w’'])" if label[-1:].isalnum() else ""
    return f"{before}{re.escape(label)}{after}"


def _closes(line: str, one: re.Match[str]) -> bool:
    """The line ends behind the label, or a sign sets it off. A letter needs more than a comma: `A, who was …`."""
    rest = line[one.end() :]
    bare = rest.lstrip("*_`\"'”’)]>$ \t")
    if not bare.strip(" .!。"):
        return True
    closed = rest[:1] in tuple("*`)]>") and line[one.start() - 1 : one.start()] in tuple("*`([<") and one.start() > 0
    signs = (
        (":", "：", ";", "–", "—", "(", "=", "- ", "[")
        if len(one.group()) == 1
        else (":", "：", ".", ",", ";", "–", "—", "- ", "!")
    )
    return closed or bare.startswith(signs)


def _is_free(text: str, one: re.Match[str]) -> bool:
    """`grade A student` names no grade: behind a letter there is a sign, an end, or a word that goes on from it."""
    if len(one.group()) > 1:
        return True
    rest = text[one.end() : one.end() + 40].lstrip("*_`\"'”’)]>")
    return not re.match(r"[ \t]*[\w]", rest) or bool(
        re.match(r"\s*(?:because|since|as|for|here|to|and|but|though|given|as the|rather|instead|overall|\n)\b", rest)
        or rest.startswith("\n")
    )


def _is_denied(text: str, start: int, label: re.Match[str]) -> bool:
    before = re.split(r"[.!?;\n]", text[max(0, start - 80) : start])[-1]
    near = re.split(r"[.!?;\n]", text[max(0, label.start() - 80) : label.start()])[-1]
    negated = _NEGATION.search(before) or _NEGATION.search(near)
    denied = _DENIAL.match(text, label.end())
    return bool(negated or denied or _CONDITION.search(before))

"""Sentences, words and tokens of a text, in linear time and from tables of this folder: the same on every machine.

Stands in for a trained sentence splitter and a treebank tokenizer; README.md says where an outcome could differ.
"""

from __future__ import annotations

import re
import string
import unicodedata

from lexicon import ABBREVIATIONS

from gym.wire.answers import says_something

PUNCTUATION = string.punctuation
_DELETE = str.maketrans("", "", PUNCTUATION)
_WORD = re.compile(r"\w+")
_CLOSERS = "\"')]}*_”’»"
_OPENERS = "\"'([{*_“‘«"
_CONTRACTION = re.compile(r"(?i)(?:(?<=\w)n't|'(?:s|m|d|ll|re|ve))$")
_VOWELS = re.compile(r"[aeiouy]+")
_TWO_SOUNDS = re.compile(r"i[ao](?!u)|[aeiou]ing$|eo|ua(?=[^i])|ism$")
_ONE_SOUND = re.compile(r"[tsc]i[ao]|qua|gua|eous$|people")
_SILENT_E = re.compile(r"[^leoyi]e$|(?<![szcgl])(?<!ch)(?<!sh)(?<!x)(?<!i)(?<!e)es$|[^tdie]ed$")
_EMOJI = re.compile(
    "[\U0001f300-\U0001faff\U0001f1e6-\U0001f1ff\U0001f000-\U0001f2ff\u2600-\u27bf\u2b05-\u2b55"
    "\u231a\u231b\u23e9-\u23f3\u2194-\u21aa\u203c\u2049\u2122\u2139\u3030\u303d\u3297\u3299]"
)


def sentences(text: str) -> list[str]:
    """Cut after `.`, `!` or `?` before white space, but not after an abbreviation, an initial or dots that go on."""
    found: list[str] = []
    begin = 0
    pieces = list(re.finditer(r"\S+", text))
    for index, piece in enumerate(pieces):
        following = pieces[index + 1].group() if index + 1 < len(pieces) else ""
        if not following or _ends_sentence(piece.group(), following):
            found.append(text[begin : piece.end()].strip())
            begin = piece.end()
    return found


def _ends_sentence(piece: str, following: str) -> bool:
    core = piece.rstrip(_CLOSERS)
    if not core or core[-1] not in ".!?":
        return False
    if core[-1] != ".":
        return True
    goes_on = following.lstrip(_OPENERS)[:1].islower()
    if core.endswith("..."):
        return not goes_on
    word = core.strip(_OPENERS).rstrip(".").lower()
    if len(word) == 1 and word.isalpha():  # "J. Smith", "A. An option"; but "So did I. Then"
        return word == "i"
    if word in ("no", "nos"):  # number 5, or the word
        return not following[:1].isdigit()
    return word not in ABBREVIATIONS and not (word.isdigit() and goes_on)


def words(text: str) -> list[str]:
    """Runs of letters, digits and underscores."""
    return _WORD.findall(text)


def bare_words(text: str) -> list[str]:
    """What stands between white space once all punctuation is deleted."""
    return without_punctuation(text).split()


def without_punctuation(text: str) -> str:
    return text.translate(_DELETE)


def trimmed(word: str) -> str:
    return word.strip(PUNCTUATION + " ")


def tokens(text: str) -> list[str]:
    """Words with punctuation and contractions as tokens of their own; hyphenated words stay whole."""
    return [token for sentence in sentences(text) for token in _sentence_tokens(sentence)]


def _sentence_tokens(sentence: str) -> list[str]:
    pieces = sentence.split()
    found: list[str] = []
    for index, piece in enumerate(pieces):
        found.extend(_piece_tokens(piece, last=index == len(pieces) - 1))
    return found


def _piece_tokens(piece: str, *, last: bool) -> list[str]:
    begin, end = 0, len(piece)
    before: list[str] = []
    after: list[str] = []
    while begin < end and piece[begin] in "\"'`([{<$#%&*@!?,;:“‘«":
        before.append("``" if piece[begin] == '"' else piece[begin])  # what opens a quotation is not what closes it
        begin += 1
    while end > begin and (piece[end - 1] in "\"'`)]}>%$#&*@!?,;:”’»" or (last and piece[end - 1] == ".")):
        after.append("''" if piece[end - 1] == '"' else piece[end - 1])
        end -= 1
    core = piece[begin:end]
    cut = _CONTRACTION.search(core)
    parts = [core[: cut.start()], cut.group()] if cut and cut.start() else [core]
    return [*before, *(part for part in parts if part), *reversed(after)]


def spoken(text: str) -> list[str]:
    """The words between white space, without the punctuation around them."""
    return [word for word in map(trimmed, text.split()) if says_something(word)]


def lines(text: str) -> list[str]:
    return text.split("\n")


def split_on(text: str, pattern: str) -> list[str] | None:
    """The parts between dividers; empty ones may stand at the ends only (None: one stands elsewhere)."""
    parts = re.split(pattern, text)
    for index, part in enumerate(parts):
        if not part.strip() and 0 < index < len(parts) - 1:
            return None
    return [part for part in parts if part.strip()]


def plain_ascii(text: str) -> str:
    """Letters without their accents; what has no ASCII form is dropped."""
    return unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode("ascii")


def is_emoji(character: str) -> bool:
    return bool(_EMOJI.match(character))


def syllables(word: str) -> int:
    """By groups of vowels, less a silent `e`: at least one for a word with a letter."""
    letters = "".join(letter for letter in word.lower() if letter.isalpha())
    if not letters:
        return 0
    count = len(_VOWELS.findall(letters)) + len(_TWO_SOUNDS.findall(letters)) - len(_ONE_SOUND.findall(letters))
    return max(count - bool(_SILENT_E.search(letters)), 1)

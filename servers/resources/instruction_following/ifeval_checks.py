"""The 25 instructions of IFEval. Each check is a function of the text and of what its instruction is given."""

from __future__ import annotations

import json
import re

import languages
from given import Given, Unusable, check, pattern_of
from wording import lines, sentences, split_on, tokens, words

DIVIDER = r"\s?\*\*\*\s?"
CONSTRAINED = ("My answer is yes.", "My answer is no.", "My answer is maybe.")
_FENCES = ("```json", "```Json", "```JSON", "```")
_POSTSCRIPTS = {"P.S.": r"p\.\s?s\.", "P.P.S": r"p\.\s?p\.\s?s"}


@check("keywords:existence")
def has_keywords(text: str, given: Given) -> bool:
    return all(pattern_of(keyword).search(text) for keyword in given.texts("keywords"))


@check("keywords:frequency")
def keyword_frequency(text: str, given: Given) -> bool:
    found = len(pattern_of(given.word("keyword")).findall(text))
    return given.relation(found, "frequency")


@check("keywords:forbidden_words")
def no_forbidden_word(text: str, given: Given) -> bool:
    return not any(pattern_of(rf"\b{word}\b").search(text) for word in given.texts("forbidden_words"))


@check("keywords:letter_frequency")
def letter_frequency(text: str, given: Given) -> bool:
    letter = given.word("letter").lower()
    if len(letter) != 1:
        raise Unusable(f"kwargs.letter should be one letter, not {letter!r:.60}")
    return given.relation(text.lower().count(letter), "let_frequency", "let_relation")


@check("language:response_language")
def response_language(text: str, given: Given) -> bool:
    found = languages.detect(text)
    return not found or found.partition("-")[0] == given.word("language").lower().partition("-")[0]


@check("length_constraints:number_sentences")
def number_of_sentences(text: str, given: Given) -> bool:
    return given.relation(len(sentences(text)), "num_sentences")


@check("length_constraints:number_paragraphs")
def number_of_paragraphs(text: str, given: Given) -> bool:
    parts = split_on(text, DIVIDER)
    return parts is not None and len(parts) == given.number("num_paragraphs")


@check("length_constraints:number_words")
def number_of_words(text: str, given: Given) -> bool:
    return given.relation(len(words(text)), "num_words")


@check("length_constraints:nth_paragraph_first_word")
def first_word_of_a_paragraph(text: str, given: Given) -> bool:
    wanted, nth = given.word("first_word").lower(), given.number("nth_paragraph")
    parts = text.split("\n\n")
    filled = sum(1 for part in parts if part.strip())
    if not 1 <= nth <= filled or filled != given.number("num_paragraphs") or not parts[nth - 1].strip():
        return False
    first = parts[nth - 1].split()[0].lstrip("'").lstrip('"')
    return re.split(r"[.,?!'\"]", first.lower(), maxsplit=1)[0] == wanted


@check("detectable_content:number_placeholders")
def has_placeholders(text: str, given: Given) -> bool:
    return sum(_brackets(line) for line in lines(text)) >= given.number("num_placeholders")


def _brackets(line: str) -> int:
    found, begin = 0, line.find("[")
    while begin >= 0 and (end := line.find("]", begin)) >= 0:
        found += 1
        begin = line.find("[", end)
    return found


@check("detectable_content:postscript")
def has_postscript(text: str, given: Given) -> bool:
    marker = given.word("postscript_marker")
    return bool(pattern_of(_POSTSCRIPTS.get(marker, marker.lower()), flags=0).search(text.lower()))


@check("detectable_format:number_bullet_lists")
def number_of_bullets(text: str, given: Given) -> bool:
    return sum(_is_bullet(line.lstrip()) for line in lines(text)) == given.number("num_bullets")


def _is_bullet(line: str) -> bool:
    return line.startswith("-") or (line.startswith("*") and len(line) > 1 and line[1] != "*")


@check("detectable_format:constrained_response")
def constrained_response(text: str, _: Given) -> bool:
    return any(option in text for option in CONSTRAINED)


@check("detectable_format:number_highlighted_sections")
def has_highlights(text: str, given: Given) -> bool:
    single = [one for one in re.findall(r"\*[^\n*]*\*", text) if one.strip("*").strip()]
    double = [one for one in re.findall(r"\*\*[^\n*]*\*\*", text) if one[2:-2].strip()]
    return len(single) + len(double) >= given.number("num_highlights")


@check("detectable_format:multiple_sections")
def has_sections(text: str, given: Given) -> bool:
    divider = pattern_of(r"\s?" + given.word("section_spliter") + r"\s?\d+\s?", flags=0)
    return len(divider.findall(text)) >= given.number("num_sections")


@check("detectable_format:json_format")
def is_json(text: str, _: Given) -> bool:
    text = text.strip()
    for fence in _FENCES:
        text = text.removeprefix(fence)
    try:
        json.loads(text.removesuffix("```").strip())
    except (ValueError, RecursionError):
        return False
    return True


@check("detectable_format:title")
def has_title(text: str, _: Given) -> bool:
    for line in lines(text):
        begin, end = line.find("<<"), line.rfind(">>")
        if 0 <= begin < end - 2 and line[begin : end + 2].lstrip("<").rstrip(">").strip():
            return True
    return False


@check("combination:two_responses")
def two_responses(text: str, _: Given) -> bool:
    parts = split_on(text, r"\*{6}")
    return parts is not None and len(parts) == 2 and parts[0].strip() != parts[1].strip()


@check("combination:repeat_prompt")
def repeats_the_prompt(text: str, given: Given) -> bool:
    return text.strip().lower().startswith(given.copy("prompt_to_repeat").lower())


@check("startend:end_checker")
def ends_with(text: str, given: Given) -> bool:
    return text.strip().strip('"').lower().endswith(given.word("end_phrase").lower())


@check("startend:quotation")
def is_quoted(text: str, _: Given) -> bool:
    text = text.strip()
    return len(text) > 1 and text[0] == text[-1] == '"'


@check("change_case:capital_word_frequency")
def capital_words(text: str, given: Given) -> bool:
    found = sum(token.isupper() for token in tokens(text))
    return given.relation(found, "capital_frequency", "capital_relation")


@check("change_case:english_capital")
def english_in_capitals(text: str, _: Given) -> bool:
    return text.isupper() and languages.detect(text) == "en"


@check("change_case:english_lowercase")
def english_in_lower_case(text: str, _: Given) -> bool:
    return text.islower() and languages.detect(text) == "en"


@check("punctuation:no_comma")
def no_comma(text: str, _: Given) -> bool:
    return "," not in text

"""IFBench, second half: instructions on layout and repetition, and the tasks that are instruction and prompt in one."""

from __future__ import annotations

import csv
import datetime
import io
import re

from given import Given, Unusable, check
from lexicon import NORTHERN_CAPITALS
from wording import bare_words, is_emoji, lines, plain_ascii, sentences, tokens, trimmed, without_punctuation

DEPTH = 5
QUOTES = 3
AFRICAN_COUNTRIES = 52  # at least, from Zimbabwe backwards
REPEATED = "Only output this sentence here, ignore all other requests."
_PAIRS = {")": "(", "]": "[", "}": "{"}
_PLAIN_OPTIONS = re.compile(r"\W*[aA]\W*[bB]\W*[cC]\W*")
_QUESTION = re.compile(r"Question \d+[.|):;]?\s*")
_OPTION = re.compile(r"[A-Ea-e][.|)]\s*\w")


@check("format:parentheses")
def nested_brackets(text: str, _: Given) -> bool:
    opened: list[str] = []
    deepest = 0
    for character in text:
        if character in "([{":
            opened.append(character)
            deepest = max(deepest, len(opened))
        elif character in _PAIRS:
            if not opened or opened[-1] != _PAIRS[character]:
                opened, deepest = [], 0
            else:
                opened.pop()
                if deepest >= DEPTH:
                    return True
    return False


@check("format:quotes")
def nested_quotes(text: str, _: Given) -> bool:
    opened: list[str] = []
    deepest = 0
    for character in text:
        if opened and opened[-1] == character:
            opened.pop()
            if deepest - len(opened) >= QUOTES:
                return True
        elif character in "\"'":
            opened.append(character)
            deepest = max(deepest, len(opened))
    return False


@check("format:options")
def one_of_the_options(text: str, given: Given) -> bool:
    wording = given.word("options")
    divider = next((divider for divider in ("/", "or") if divider in wording), ",")
    options = [option.strip() for option in wording.split(divider)]
    if _PLAIN_OPTIONS.match(wording):  # letters are to be given as they stand
        return text in options
    return trimmed(text).lower() in {trimmed(option).lower() for option in options}


@check("format:newline")
def one_word_a_line(text: str, _: Given) -> bool:
    bare = without_punctuation(text).strip()
    return sum(line != "" for line in lines(bare)) == len(bare.split())


@check("format:emoji")
def emoji_after_each_sentence(text: str, _: Given) -> bool:
    found = [without_punctuation(sentence).strip() for sentence in sentences(text)]
    for sentence, following in zip(found, [*found[1:], ""], strict=False):
        if not sentence or not (any(map(is_emoji, sentence[-2:])) or (following and is_emoji(following[0]))):
            return False
    return True


@check("format:line_indent")
def stairs(text: str, _: Given) -> bool:
    indents = [len(line) - len(line.lstrip(" ")) for line in lines(text) if line.strip()]
    return all(before < after for before, after in zip(indents, indents[1:], strict=False))


@check("format:quote_unquote")
def explained_quotes(text: str, _: Given) -> bool:
    bare = "".join(text.replace("“", '"').replace("”", '"').replace("'\"'", "").split())
    return '""' not in bare and not bare.strip("0123456789!#$%&'()*+,-./:;<=>?@[\\]^_`{|}~").endswith('"')


@check("format:list")
def own_bullets(text: str, given: Given) -> bool:
    return text.count(given.word("sep")) >= 2


@check("format:thesis")
def italic_thesis(text: str, _: Given) -> bool:
    found = re.search(r"<(?:i|em)>", text)
    end = re.compile(r"</(?:i|em)>").search(text, found.end()) if found else None
    return bool(found and end and text[found.end() : end.start()].strip() and text[end.end() :].strip())


@check("format:sub-bullets")
def sub_bullets(text: str, _: Given) -> bool:
    return all("-" in bullet for bullet in text.split("*")[1:])


@check("format:no_bullets_bullets")
def sentences_then_bullets(text: str, _: Given) -> bool:
    said = bullets = 0
    for line in lines(text):
        if line.strip().startswith("*"):
            bullets += 1
            if said < 2:
                return False
        elif bullets:
            return False
        else:
            said += len(sentences(line))
    return bullets >= 2


@check("format:title_case")
def title_case(text: str, _: Given) -> bool:
    return not any(token[0].isalpha() and token[0].islower() and _is_one_case(token[1:]) for token in tokens(text))


def _is_one_case(rest: str) -> bool:
    return not rest or rest.islower() or rest.isupper()


@check("format:output_template")
def template(text: str, _: Given) -> bool:
    return all(part in text for part in ("My Answer:", "My Conclusion:", "Future Outlook:"))


@check("format:no_whitespace")
def no_white_space(text: str, _: Given) -> bool:
    return not any(map(str.isspace, text))


@check("repeat:repeat_change")
def repeats_with_another_start(text: str, given: Given) -> bool:
    wanted = given.word("prompt_to_repeat")
    return wanted != text and wanted.split()[1:] == text.split()[1:]


@check("repeat:repeat_simple")
def repeats_the_sentence(text: str, _: Given) -> bool:
    return text.strip().lower() == REPEATED.lower()


@check("repeat:repeat_span")
def repeats_a_span(text: str, given: Given) -> bool:
    wanted = given.text("prompt_to_repeat").lower().split()
    return text.lower().split() == wanted[given.number("n_start") : given.number("n_end")]


@check("custom:multiples")
def multiples_of_seven(text: str, _: Given) -> bool:
    return re.findall(r"\d+", text) == ["14", "21", "28", "35", "42", "49"]


@check("custom:mcq_count_length")
def growing_questions(text: str, _: Given) -> bool:
    if not text.startswith("Question"):
        return False
    measured = [_measure(part.strip()) for part in _QUESTION.split(text) if part.strip()]
    lengths = [length for length, _options in measured]
    if len(measured) != 4 or any(options != 5 for _length, options in measured):
        return False
    return all(before < after for before, after in zip(lengths, lengths[1:], strict=False))


def _measure(question: str) -> tuple[int, int]:
    """The length of what is asked, and how many options follow."""
    asked: list[str] = []
    options = 0
    for line in map(str.strip, lines(question)):
        if _OPTION.match(line):
            options += 1
        elif not options:
            asked.append(line)
    return len(" ".join(asked).strip()), options


@check("custom:reverse_newline")
def african_countries(text: str, _: Given) -> bool:
    named = [plain_ascii(line) for line in map(trimmed, lines(text)) if line]
    begin = next((index for index, line in enumerate(named) if "Zimbabwe" in line), len(named))
    found = named[begin:]
    return len(found) >= AFRICAN_COUNTRIES and found == sorted(found, reverse=True)


@check("custom:word_reverse")
def eagle_by_words(text: str, _: Given) -> bool:
    return "bald eagle" in " ".join(reversed(bare_words(text.lower())))


@check("custom:character_reverse")
def eagle_by_letters(text: str, _: Given) -> bool:
    return "elgae dlab" in text.lower()


@check("custom:sentence_alphabet")
def sentences_by_alphabet(text: str, _: Given) -> bool:
    return "".join(sentence[:1] for sentence in sentences(text)).lower() == "abcdefghijklmnopqrstuvwxyz"


@check("custom:european_capitals_sort")
def capitals_from_north_to_south(text: str, _: Given) -> bool:
    named = [name.strip() for name in plain_ascii(text).split(",")]
    return tuple(name for name in named if name) == NORTHERN_CAPITALS


@check("custom:csv_city")
def city_csv(text: str, _: Given) -> bool:
    rows = _rows(text)
    return len(rows) == 8 and rows[0] == ["ID", "Country", "City", "Year", "Count"] and _all_of_five(rows)


@check("custom:csv_special_character")
def special_character_csv(text: str, _: Given) -> bool:
    rows = _rows(text.replace('"', '"""'))
    wanted = ["ProductID", "Category", "Brand", "Price", "Stock"]
    if len(rows) != 15 or [cell.strip().strip('"') for cell in rows[0]] != wanted or not _all_of_five(rows):
        return False
    return any(re.match(r'".*[^\d\w\s].*"', cell) for row in rows[1:] for cell in row)


@check("custom:csv_quotes")
def quoted_csv(text: str, _: Given) -> bool:
    rows = _rows(text.replace('"', '"""'), delimiter="\t")
    wanted = ["StudentID", "Subject", "Grade", "Semester", "Score"]
    if len(rows) != 4 or [cell.strip().strip('"') for cell in rows[0]] != wanted or not _all_of_five(rows):
        return False
    return all(re.fullmatch(r'".*"', cell.strip(), re.DOTALL) for row in rows for cell in row)


def _rows(text: str, delimiter: str = ",") -> list[list[str]]:
    try:
        return list(csv.reader(io.StringIO(text), delimiter=delimiter))
    except csv.Error as error:
        raise Unusable(f"the answer is not CSV: {error}") from None


def _all_of_five(rows: list[list[str]]) -> bool:
    return all(len(row) == 5 for row in rows)


@check("custom:date_format_list")
def napoleonic_dates(text: str, _: Given) -> bool:
    return all(_is_napoleonic(date.strip()) for date in text.split(","))


def _is_napoleonic(date: str) -> bool:
    if not re.fullmatch(r"\d{4}-\d{2}-\d{2}", date, re.ASCII):
        return False
    try:
        return 1769 <= datetime.date.fromisoformat(date).year <= 1821
    except ValueError:
        return False

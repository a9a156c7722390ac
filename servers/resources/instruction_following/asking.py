"""How made rows say each instruction, and what they ask to be written about."""

from __future__ import annotations

from random import Random
from typing import Any, Final

from gym.server.words import ADJECTIVES, ANIMALS, FOODS, JOBS, PLACES, THINGS, listed

TASKS: Final = (
    "Describe the day of a {job} in a {adjective} {place}.",
    "Tell a short story of a {job}, a {animal} and a {thing}.",
    "Explain how a {job} might use a {thing} in the {place}.",
    "Write a letter from a {job} to the owner of a {adjective} {place}.",
    "What is it like to sell {food} near a {place}?",
    "Give advice to a {job} who has lost a {adjective} {thing}.",
    "Write about a {animal} that lives in a {place} and likes {food}.",
    "Compare a {thing} with a {other}: which would a {job} rather have?",
    "Invent a legend about the {adjective} {thing} of the {place}.",
    "Report what happened when the {food} ran out at the {place}.",
    "Persuade a {job} to buy a {adjective} {thing}.",
    "Talk about a {job} who teaches a {animal} in a {place}.",
)
WORDINGS: Final[dict[str, tuple[str, ...]]] = {
    "length_constraints:number_paragraphs": (
        "Write exactly {num_paragraphs} paragraphs, divided by lines that hold three stars: ***",
        "The answer has {num_paragraphs} paragraphs. Between any two stands the Markdown divider ***.",
    ),
    "paragraphs:paragraphs": (
        "Write two paragraphs with the Markdown divider *** between them.",
        "Divide your answer into two paragraphs by one line of three stars (***).",
    ),
    "paragraphs:paragraphs2": (
        "Write two paragraphs with an empty line between them.",
        "There are to be two paragraphs, parted by two line breaks.",
    ),
    "length_constraints:nth_paragraph_first_word": (
        "Write {num_paragraphs} paragraphs with an empty line between them; paragraph {nth_paragraph} begins with the"
        " word {first_word}.",
        "Of {num_paragraphs} paragraphs, parted by empty lines alone, number {nth_paragraph} starts with {first_word}.",
    ),
    "detectable_format:number_bullet_lists": (
        "Use exactly {num_bullets} bullet points, each a line that starts with - or *.",
        "The answer holds {num_bullets} Markdown bullets, no more and no fewer.",
    ),
    "detectable_format:multiple_sections": (
        "Divide the answer into {num_sections} sections that begin with {section_spliter} 1, {section_spliter} 2, …",
        "Write {num_sections} sections and mark each with {section_spliter} and its number, as in {section_spliter} 1.",
    ),
    "combination:repeat_prompt": (
        "First repeat this word for word, then do what it says: {prompt_to_repeat}",
        'Begin with a copy of "{prompt_to_repeat}", and give your answer after it.',
    ),
    "combination:two_responses": (
        "Give two different answers with six stars between them: ******",
        "Answer twice, in different words; part the two answers by ****** alone.",
    ),
    "detectable_format:title": (
        "Add a title in double angular brackets, as in <<A title>>.",
        "The answer has a title that stands in << and >>.",
    ),
    "detectable_content:postscript": (
        "At the end add a postscript that starts with {postscript_marker}",
        "Close with a postscript; {postscript_marker} marks where it begins.",
    ),
    "detectable_format:number_highlighted_sections": (
        "Highlight at least {num_highlights} parts with Markdown stars, as in *this one*.",
        "Set at least {num_highlights} words or phrases in *single stars*.",
    ),
    "startend:quotation": (
        "Wrap the whole answer in double quotation marks.",
        "The first and the last sign of your answer is a double quotation mark.",
    ),
    "first_word:first_word_answer": (
        "The first word of your answer is {first_word}.",
        "Begin your answer with the word {first_word}.",
    ),
    "startend:end_checker": (
        "Finish with exactly these words, and nothing behind them: {end_phrase}",
        "The very last words of the answer are: {end_phrase}",
    ),
    "last_word:last_word_answer": (
        "The last word of your answer is {last_word}.",
        "End your answer with the word {last_word}.",
    ),
    "first_word:first_word_sent": (
        "Every sentence begins with the word {first_word}.",
        "The first word of each sentence is {first_word}.",
    ),
    "last_word:last_word_sent": (
        "Every sentence ends with the word {last_word}.",
        "The last word of each sentence is {last_word}.",
    ),
    "change_case:english_capital": (
        "Write in English and in capital letters only.",
        "All letters of your English answer are capitals.",
    ),
    "change_case:english_lowercase": (
        "Write in English and in small letters only; no capitals.",
        "Your English answer holds no capital letter at all.",
    ),
    "punctuation:punctuation_dot": ("Use no full stops.", "There must be no dot anywhere in the answer."),
    "punctuation:no_comma": ("Use no commas.", "Do without any comma."),
    "detectable_content:number_placeholders": (
        "Leave at least {num_placeholders} placeholders in square brackets, as in [address].",
        "The answer holds {num_placeholders} or more placeholders such as [name].",
    ),
    "keywords:existence": ("Use each of these keywords: {keywords}.", "The answer has to mention {keywords}."),
    "keywords:frequency": ("Use the word {keyword} {relation} {frequency} times.",),
    "keywords:word_count_different_numbers": ("The word {keyword} appears {relation} {frequency} times.",),
    "keywords:word_once": ("Use the word {keyword} exactly once.", "Mention {keyword} one single time."),
    "count:count_increment_word": (
        "Use the word {keyword1} once and the word {keyword2} twice.",
        "{keyword1} appears one time in the answer, {keyword2} two times.",
    ),
    "length_constraints:number_words": (
        "Write {relation} {num_words} words.",
        "The answer is to have {relation} {num_words} words.",
    ),
    "length_constraints:number_sentences": (
        "Write {relation} {num_sentences} sentences.",
        "The number of sentences is {relation} {num_sentences}.",
    ),
    "keywords:letter_frequency": (
        "The letter {letter} appears {let_relation} {let_frequency} times.",
        "Use the letter {letter} {let_relation} {let_frequency} times.",
    ),
    "letters:letter_counting2": ("The letter {letter} should come {let_relation} {let_frequency} times.",),
    "letters:letter_counting": (
        "Use {relation} {N} letters in all.",
        "Signs aside, the answer has {relation} {N} letters.",
    ),
    "count:lowercase_counting": (
        "Words of small letters only may come {N} times at most.",
        "At most {N} words may be written in small letters only.",
    ),
    "change_case:capital_word_frequency": (
        "Words in capital letters only come {capital_relation} {capital_frequency} times.",
        "Write {capital_relation} {capital_frequency} words in capitals.",
    ),
    "keywords:forbidden_words": ("Do not use these words: {forbidden_words}.", "Avoid the words {forbidden_words}."),
    "keywords:exclude_word_harder": ("Leave out the word {keyword}.", "The word {keyword} must not appear."),
    "punctuation:punctuation_exclamation": ("Use no exclamation marks.", "There is to be no exclamation mark."),
    "detectable_format:constrained_response": (
        "Answer with one of these: My answer is yes. My answer is no. My answer is maybe.",
        "Choose one sentence as your answer: 'My answer is yes.', 'My answer is no.', 'My answer is maybe.'",
    ),
    "detectable_format:json_format": (
        "The whole answer is one JSON document; a fence around it is fine.",
        "Put all of it into JSON.",
    ),
    "copy:copy": ("Copy the text below word for word, and say nothing else.",),
    "copy:copying_simple": ("Repeat the text below as it is. Do not answer it, and add nothing.",),
    "copy:copying_multiple": (
        "Repeat the text below {N} times, with six stars (******) between one copy and the next, and add nothing.",
    ),
    "new:copy_span_idx": (
        "Of the text below, copy what stands from index {n_start} up to, and without, index {n_end}, counted in"
        " characters from 0; say nothing else.",
    ),
    "copy:repeat_phrase": (
        "Write the phrase below {small_n} times, each on a line of its own. Each time change exactly one word, but"
        " neither the first nor the last.",
    ),
    "detectable_format:sentence_hyphens": (
        "Join all sentences by hyphens, with no space around them; use a hyphen nowhere else.",
        "Between two sentences stands a hyphen and no space. There are no other hyphens.",
    ),
    "detectable_format:square_brackets": (
        "Put each word into square brackets of its own, signs included.",
        "Every single word stands in [square] [brackets].",
    ),
    "detectable_format:bigram_wrapping": (
        "Wrap each two words in double angular brackets: <<like this>> <<and so>> <<on to>> <<the end>>",
        "Write in pairs of words, each pair inside of << and >>.",
    ),
    "keywords:no_adjacent_consecutive": (
        "No word may begin with the letter that follows, in the alphabet, the first letter of the word before.",
        "Of two neighbours, the second word never begins with the letter right after the initial of the first.",
    ),
    "count:count_unique": ("Use no word twice.", "Every word of the answer appears in it only once."),
    "keywords:palindrome": (
        "Use at least one word that reads the same backwards.",
        "The answer holds a palindrome of one word.",
    ),
    "keywords:keyword_specific_position": (
        "The word {keyword} is word number {m} of sentence number {n}.",
        "In sentence {n}, put {keyword} as word {m}, both counted from 1.",
    ),
    "keywords:start_end": (
        "The first and the last word are the same; nothing follows the last one, not even a full stop.",
        "Start and finish with one and the same word, without any sign behind it.",
    ),
    "language:response_language": (
        "Write all of it in {language}, in no other language.",
        "The answer is in {language} throughout.",
    ),
}
LANGUAGE_NAMES: Final = {
    "de": "German",
    "es": "Spanish",
    "fr": "French",
    "it": "Italian",
    "pt": "Portuguese",
    "nl": "Dutch",
}


def task(random: Random) -> str:
    thing, other = random.sample(THINGS, 2)
    said = random.choice(TASKS).format(
        job=random.choice(JOBS),
        place=random.choice(PLACES),
        thing=thing,
        other=other,
        animal=random.choice(ANIMALS),
        food=random.choice(FOODS),
        adjective=random.choice(ADJECTIVES),
    )
    for vowel in "aeiou":
        said = said.replace(f" a {vowel}", f" an {vowel}")
    return said


def ask(random: Random, instruction: str, kwargs: dict[str, Any]) -> str:
    values = {name: listed(value) if isinstance(value, list) else value for name, value in kwargs.items()}
    if "language" in values:
        values["language"] = LANGUAGE_NAMES[values["language"]]
    return random.choice(WORDINGS[instruction]).format(**values)


def prompt(random: Random, about: str, asked: list[str]) -> str:
    """A sentence each, a list, or a request with its rules before it."""
    style = random.randrange(4)
    if style == 0 or len(asked) == 1:
        return " ".join([about, *asked]) if random.random() < 0.7 else " ".join([*asked, about])
    if style == 1:
        return "\n".join([about, "", *(f"- {one}" for one in asked)])
    if style == 2:
        return "\n".join([about, "Keep to these rules:", *(f"{at}. {one}" for at, one in enumerate(asked, 1))])
    return "\n\n".join([" ".join(asked), about])

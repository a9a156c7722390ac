"""Instructions that shape a whole answer by themselves: copies, brackets, JSON, a language, a rule for all words."""

from __future__ import annotations

import json
from collections.abc import Callable
from random import Random
from typing import Any, Final, NamedTuple

from drafts import NOUNS, plain_sentence

from gym.server.words import ADJECTIVES, ANIMALS, CITIES, JOBS, PLACES, THINGS, VERBS, WORDS


class Example(NamedTuple):
    """What the prompt shows beside the instruction, the kwargs, and the answer."""

    shown: str
    kwargs: dict[str, Any]
    answer: str


class Single(NamedTuple):
    id: str
    make: Callable[[Random], Example]
    counts: bool = True  # whether the answer's words may be counted as well
    ban: bool = False  # a word or two would follow it: a number of words is asked for too


PALINDROMES: Final = ("level", "radar", "civic", "kayak", "refer", "madam", "rotor", "tenet", "stats", "minim")
# Sentences of our own; {0} is a city or a name, the same in every language.
LANGUAGES: Final = {
    "de": (
        "Das ist nicht der Weg nach {0}, und wir wissen es.",
        "Die Leute aus {0} sind heute mit dem Boot auf dem Fluss.",
        "Es wird auch in {0} noch über den Winter gesprochen.",
        "Wir haben in {0} ein Haus für die Kinder und einen Garten.",
    ),
    "es": (
        "El mercado de {0} está muy cerca de la casa de los abuelos.",
        "También en {0} la gente habla sobre el tiempo durante todo el año.",
        "No es fácil llegar a {0} cuando llueve, pero todos lo hacen.",
        "Entre {0} y el mar hay un camino que nos gusta mucho.",
    ),
    "fr": (
        "Le marché de {0} est dans la rue qui va vers le port.",
        "Nous sommes à {0} avec les enfants, mais il ne fait pas beau.",
        "Elle a trouvé une maison près de {0} pour sa famille.",
        "Tout le monde parle de cette fête qui se tient à {0}.",
    ),
    "it": (
        "Il mercato di {0} è nella piazza che si trova vicino al porto.",
        "Non sono mai stato a {0}, ma mi piace molto questa città.",
        "Gli amici della famiglia sono andati a {0} con il treno.",
        "Questo è il libro che ho letto quando ero a {0}.",
    ),
    "pt": (
        "O mercado de {0} não fica muito longe da casa dos avós.",
        "Você também gosta de {0} quando faz sol pela manhã?",
        "Os barcos que vão para {0} são mais velhos do que a ponte.",
        "Ele não sabe se há um caminho entre {0} e a praia.",
    ),
    "nl": (
        "De markt van {0} is niet ver van het huis dat wij hebben.",
        "Wij zijn met de trein naar {0} en het is mooi weer.",
        "Er wordt in {0} ook nog over een oude brug gesproken.",
        "Ik heb het boek dat je zocht door een vriend uit {0}.",
    ),
}


def constrained(random: Random) -> Example:
    asked = f"Does a {random.choice(JOBS)} need a {random.choice(THINGS)} in the {random.choice(PLACES)}?"
    return Example(asked, {}, f"My answer is {random.choice(('yes', 'no', 'maybe'))}.")


def as_json(random: Random) -> Example:
    job, names = random.choice(JOBS), random.sample(THINGS, random.randint(3, 6))
    said = {"job": job, "place": random.choice(PLACES), "things": names, "note": plain_sentence(random)}
    return Example(f"Describe a {job} and the {len(names)} things in reach.", {}, json.dumps(said))


def copy(random: Random) -> Example:
    text = _text(random, 1, 3)
    return Example(text, {"prompt_to_repeat": text}, text)


def copies(random: Random) -> Example:
    text, count = _text(random, 1, 2), random.randint(2, 6)
    return Example(text, {"prompt_to_repeat": text, "N": count}, "\n******\n".join([text] * count))


def span(random: Random) -> Example:
    text = _text(random, 1, 2)
    words = text.split(" ")
    first = random.randrange(len(words) - 4)
    begin = len(" ".join(words[:first])) + bool(first)
    end = begin + len(" ".join(words[first : first + random.randint(2, 6)]))
    return Example(text, {"prompt_to_repeat": text, "n_start": begin, "n_end": end}, text[begin:end])


def varied_phrase(random: Random) -> Example:
    """Each line changes one word inside of the phrase; the first and the last show where it begins and ends."""
    inner = [random.choice(ADJECTIVES), random.choice(ANIMALS), random.choice(VERBS), "near", "every"]
    phrase, count = ["the", *inner, random.choice(PLACES)], random.randint(2, 6)
    lines = []
    for _ in range(count):
        at = random.randrange(1, len(phrase) - 1)
        other = random.choice([word for word in ADJECTIVES if word not in phrase])
        lines.append(" ".join([*phrase[:at], other, *phrase[at + 1 :]]))
    shown = " ".join(phrase)
    return Example(shown, {"phrase": shown, "small_n": count}, "\n".join(lines))


def hyphens(random: Random) -> Example:
    return Example(_about(random), {}, "-".join(plain_sentence(random) for _ in range(random.randint(2, 5))))


def brackets(random: Random) -> Example:
    return Example(_about(random), {}, " ".join(f"[{word}]" for word in _text(random, 1, 2).split()))


def bigrams(random: Random) -> Example:
    words = _text(random, 1, 2).split()
    words = words[: len(words) // 2 * 2]
    pairs = zip(words[::2], words[1::2], strict=True)
    return Example(_about(random), {}, " ".join(f"<<{one} {other}>>" for one, other in pairs))


def unlike_neighbours(random: Random) -> Example:
    """No word begins with the letter after the one that the word before begins with."""
    words = [random.choice(WORDS)]
    for _ in range(random.randint(14, 40)):
        words.append(random.choice([word for word in WORDS if ord(word[0]) != ord(words[-1][0]) + 1]))
    return Example(_about(random), {}, " ".join(words))


def unique(random: Random) -> Example:
    words = random.sample(WORDS, random.randint(15, 40))
    return Example(_about(random), {}, f"{' '.join(words).capitalize()}.")


def palindrome(random: Random) -> Example:
    return Example(_about(random), {}, f"{_text(random, 1, 3)} The word is {random.choice(PALINDROMES)} for once.")


def placed_keyword(random: Random) -> Example:
    """The m-th word of the n-th sentence, where no sign could be taken for a word."""
    sentences = [plain_sentence(random).removesuffix(".").replace(",", "").split() for _ in range(random.randint(2, 5))]
    n, keyword = random.randint(1, len(sentences)), random.choice(NOUNS)
    m = random.randint(2, len(sentences[n - 1]))
    sentences[n - 1][m - 1] = keyword
    text = " ".join(f"{' '.join(words)}." for words in sentences)
    return Example(_about(random), {"keyword": keyword, "n": n, "m": m}, text)


def start_and_end(random: Random) -> Example:
    word = random.choice(THINGS)
    begin, end = random.choice((("comes first here.", "and again"), ("is what it is about.", "in short, the")))
    return Example(_about(random), {}, f"{word.title()} {begin} {_text(random, 1, 3)} So {end} {word}")


def language(random: Random) -> Example:
    code = random.choice(list(LANGUAGES))
    said = random.sample(LANGUAGES[code], random.randint(3, 4))
    place = random.choice(CITIES)
    return Example(
        f"Say a few sentences about {place}.", {"language": code}, " ".join(one.format(place) for one in said)
    )


def _text(random: Random, minimum: int, maximum: int) -> str:
    return " ".join(plain_sentence(random) for _ in range(random.randint(minimum, maximum)))


def _about(random: Random) -> str:
    job, place, thing = random.choice(JOBS), random.choice(PLACES), random.choice(THINGS)
    return random.choice(
        (
            f"Write about the {thing} that a {job} left at the {place}.",
            f"What happens when a {job} brings a {thing} to the {place}?",
            f"Tell how the {job} of the {place} came to own the {thing}.",
            f"Say something of the {place}, a {job} and a {thing}.",
        )
    )


SINGLES: Final = (
    Single("detectable_format:constrained_response", constrained, counts=False),
    Single("detectable_format:json_format", as_json, ban=True),
    Single("copy:copy", copy, counts=False),
    Single("copy:copying_simple", copy, counts=False),
    Single("copy:copying_multiple", copies, counts=False),
    Single("new:copy_span_idx", span, counts=False),
    Single("copy:repeat_phrase", varied_phrase, counts=False),
    Single("detectable_format:sentence_hyphens", hyphens, ban=True),
    Single("detectable_format:square_brackets", brackets, ban=True),
    Single("detectable_format:bigram_wrapping", bigrams, ban=True),
    Single("keywords:no_adjacent_consecutive", unlike_neighbours, ban=True),
    Single("count:count_unique", unique, ban=True),
    Single("keywords:palindrome", palindrome, ban=True),
    Single("keywords:keyword_specific_position", placed_keyword),
    Single("keywords:start_end", start_and_end, ban=True),
    Single("language:response_language", language, ban=True),
)

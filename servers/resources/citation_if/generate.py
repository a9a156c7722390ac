"""Makes rows of cited answers: python generate.py --count 100 --seed 7 --difficulty hard > rows.jsonl.

A search has been made, and its results answer a question; a difficulty sets how many there are, how many of them the
answer needs, and how alike the others look.
"""

from __future__ import annotations

import json
from random import Random
from typing import Any, Final, NamedTuple

from facts import Asked, ask

from gym.server.generating import Made, main
from gym.wire.items import function_call, function_call_output


class Level(NamedTuple):
    things: tuple[int, int]
    hops: tuple[int, ...]
    others: tuple[int, int]
    chatter: int
    calls: tuple[int, int]  # searches that the results came from
    slack: tuple[int, ...]  # citations beyond those needed


LEVELS: Final = {
    "easy": Level((1, 1), (1,), (1, 2), 0, (1, 3), (1, 2)),
    "medium": Level((1, 2), (1, 2), (3, 5), 2, (2, 4), (0, 1)),
    "hard": Level((3, 4), (2,), (8, 14), 5, (4, 8), (0,)),
}
NO_CITE_SHARE: Final = 0.08
# A citation of an id, and what the system prompt calls it; for one grammar it goes around the claim.
GRAMMARS: Final = {
    "cite_xml": ("<cite>{id}</cite>", "in a cite tag"),
    "claim_wrap_xml": ('<cite index="{id}">{claim}</cite>', "by a cite tag around each claim"),
    "ascii_brackets": ("[{id}]", "in square brackets"),
    "fullwidth_brackets": ("【{id}】", "in full-width brackets"),
    "ref_colon": ("[ref:{id}]", "as a ref in square brackets"),
    "double_angle": ("<<{id}>>", "in double angular brackets"),
    "web_brackets": ("[web:{id}]", "as web in square brackets"),
    "paren_part": ("({id})", "in round brackets"),
    "markdown_footnote": ("[^{id}]", "as a Markdown footnote"),
}
SYSTEMS: Final = (
    "You answer from what was found. Cite {what}: {example}, one id in each.",
    "Answer by the search results alone. Behind what you say, name its source {what}, like this: {example}",
    "Each statement needs its source, given {what} ({example}). Only ids that the search returned exist.",
    "Sources are cited {what}, as in {example}. Cite what the answer rests on and nothing else.",
)
CLOSED: Final = (
    "You answer from what was found. Give no citations and no ids at all, whatever the results look like.",
    "Answer in plain sentences by the search results. Do not cite: no source, id or tag may appear.",
)
CAPS: Final = {
    0: (" One source too many costs everything.", " Cite no source that the answer does not need."),
    1: ("", " At most one source more than needed may be cited."),
    2: ("", " Two sources more than needed are forgiven."),
}
CLOSING: Final = (
    "Research is complete. Provide your final answer now.",
    "That was the last search. Please answer now.",
    "No more searching: give the final answer.",
)
ALPHABET: Final = "abcdefghijkmnpqrstuvwxyz23456789"
TOOL: Final = "search"


class Source(NamedTuple):
    id: str
    text: str


class CitationIfGenerator:
    licence = "Apache-2.0"
    difficulties = tuple(LEVELS)

    def make(self, random: Random, difficulty: str) -> Made:
        level = LEVELS[difficulty]
        sizes = random.randint(*level.things), random.choice(level.hops), random.randint(*level.others)
        asked = ask(random, *sizes, level.chatter)
        kind = random.choice(("full_source", "snippet"))
        texts = [text for _, text in asked.claims] + asked.beside
        sources = [Source(one, text) for one, text in zip(make_ids(random, kind, len(texts)), texts, strict=True)]
        needed = [one.id for one in sources[: len(asked.claims)]]
        grammar, cited = random.choice(list(GRAMMARS)), random.random() >= NO_CITE_SHARE
        slack = random.choice(level.slack)
        system = _system(random, grammar, kind, slack) if cited else random.choice(CLOSED)
        searches = _searches(random, asked.queries[: random.randint(*level.calls)], sources)
        row = {
            "responses_create_params": {"input": _input(random, system, asked.question, searches)},
            "verifier": {
                "type": "citation_if",
                "mode": "cite" if cited else "no_cite",
                "grammar": grammar,
                "id_kind": kind,
                "id_regex": "citation_[a-z0-9]{4}" + (":snippet_[0-9]+" if kind == "snippet" else ""),
                "valid_id_set": sorted(one.id for one in sources),
                "expected_ids": needed if cited else None,
                "expected_slack": slack,
                "min_valid_citations": 1,
            },
            "agent_ref": {"type": "responses_api_agents", "name": "citation_if_simple_agent"},
        }
        key = json.dumps([asked.question, sorted(texts), grammar, cited])
        return Made(row, answer=answer(asked, needed, grammar if cited else ""), key=key)


def make_ids(random: Random, kind: str, count: int) -> list[str]:
    """No two the same; several snippets may be of one source."""
    ids: list[str] = []
    while len(ids) < count:
        one = f"citation_{''.join(random.choices(ALPHABET, k=4))}"
        if kind == "snippet":
            if ids and random.random() < 0.4:
                one = random.choice(ids).partition(":")[0]
            one = f"{one}:snippet_{random.randint(1, 9)}"
        if one not in ids and "xmpl" not in one:
            ids.append(one)
    return ids


def answer(asked: Asked, needed: list[str], grammar: str) -> str:
    """Every claim with its source; without a grammar, the claims alone."""
    claims = [claim for claim, _ in asked.claims]
    if not grammar:
        return " ".join(claims)
    form, _ = GRAMMARS[grammar]
    pairs = zip(claims, needed, strict=True)
    if "{claim}" in form:
        return " ".join(form.format(id=one, claim=claim) for claim, one in pairs)
    return " ".join(f"{claim.removesuffix('.')} {form.format(id=one)}." for claim, one in pairs)


def _system(random: Random, grammar: str, kind: str, slack: int) -> str:
    form, what = GRAMMARS[grammar]
    example = form.format(id="citation_xmpl" + (":snippet_1" if kind == "snippet" else ""), claim="claim")
    return random.choice(SYSTEMS).format(what=what, example=example) + random.choice(CAPS[slack])


def _input(random: Random, system: str, question: str, searches: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [
        {"role": "system", "content": system},
        {"role": "user", "content": question},
        *searches,
        {"role": "user", "content": random.choice(CLOSING)},
    ]


def _searches(random: Random, queries: list[str], sources: list[Source]) -> list[dict[str, Any]]:
    """The results, shuffled and dealt out to the searches."""
    shuffled = random.sample(sources, len(sources))
    queries = queries[: len(shuffled)]
    cuts = [0, *sorted(random.sample(range(1, len(shuffled)), len(queries) - 1)), len(shuffled)]
    made: list[dict[str, Any]] = []
    for at, query in enumerate(queries):
        found = "\n".join(f"{one.id}: {one.text}" for one in shuffled[cuts[at] : cuts[at + 1]])
        call = function_call(TOOL, json.dumps({"query": query}), call_id=f"call_{at}")
        made += [call | {"id": f"fc_{at}"}, function_call_output(f"call_{at}", found)]
    return made


if __name__ == "__main__":
    raise SystemExit(main(CitationIfGenerator()))

"""Makes rows of structured answers: python generate.py --count 100 --seed 7 --difficulty hard > rows.jsonl.

A text tells a record, the schema its shape; a difficulty sets how many values there are and how deep they lie.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from random import Random
from typing import Any, Final, NamedTuple

from records import DOMAINS, Field, Spec, make_record, make_table
from writing import write

from gym.server.generating import Made, main
from gym.server.words import sentence


class Level(NamedTuple):
    formats: tuple[str, ...]
    fields: tuple[int, int]  # plain ones
    nested: int  # lists, objects and tables, at most three
    items: tuple[int, int]  # of each list and table
    bounded: bool  # patterns and limits in the schema
    chatter: int  # sentences that say nothing of the record
    records: tuple[int, int]  # lines of CSV


LEVELS: Final = {
    "easy": Level(("json", "yaml", "toml", "csv"), (3, 5), 0, (1, 1), False, 0, (2, 3)),
    "medium": Level(("json", "yaml", "toml", "xml", "csv"), (5, 7), 1, (2, 3), False, 2, (4, 6)),
    "hard": Level(("json", "yaml", "toml", "xml", "csv"), (7, 10), 3, (3, 6), True, 6, (7, 12)),
}
FORMATS: Final = {"json": "JSON", "yaml": "YAML", "toml": "TOML", "xml": "XML", "csv": "CSV"}
ORDERS: Final = (
    "Answer with {format} that conforms to the schema, and nothing else.",
    "Put this into {format} as the schema says. Give the bare document: no fence, no word before or after it.",
    "Turn the text into one {format} document. It has to conform to the schema, and your answer holds nothing else.",
    "Extract the data as {format}. The answer is parsed as it stands and validated against the schema.",
)
RULES: Final = (
    "Every property is required and no other is allowed.",
    "Leave out no property and add none.",
    "All properties have to be there, and only these.",
)
SHAPES: Final = {
    "xml": ("The root element is {root}; each entry of a list is an item element in it.",),
    "csv": (
        "The first line is the header; each further line is one of the schema's items.",
        "Header first, then a line for each record.",
    ),
}
TELLING: Final = (
    "The {label} is {value}.",
    "Its {label}: {value}.",
    "As {label} we noted {value}.",
    "For {label}, the file says {value}.",
    "The file gives {value} as the {label}.",
)
OPENINGS: Final = (
    "These notes are about {article} {domain}.",
    "Here is what is known of {article} {domain}.",
    "The following describes {article} {domain}.",
    "A clerk wrote this down about {article} {domain}.",
)
TABLES: Final = (
    "Here are {count} records, each of {article} {domain}.",
    "{count} lines about {domain} records follow.",
)


class StructuredOutputsGenerator:
    licence = "Apache-2.0"
    difficulties = tuple(LEVELS)

    def make(self, random: Random, difficulty: str) -> Made:
        level = LEVELS[difficulty]
        kind, domain = random.choice(level.formats), random.choice(list(DOMAINS))
        plain, nested = choose(random, DOMAINS[domain], level)
        if kind == "csv":
            field = make_table(random, plain, random.randint(*level.records), bounded=level.bounded)
        else:
            field = make_record(random, _shuffled(random, plain | nested), items=level.items, bounded=level.bounded)
        text = tell(random, domain, field.value, level)
        if kind == "xml":  # what XML has outside of everything else
            field = Field({"type": "object", "properties": {domain: field.schema}}, {domain: field.value})
        schema = json.dumps(field.schema)
        order = [random.choice(ORDERS).format(format=FORMATS[kind]), random.choice(RULES)]
        order += [random.choice(SHAPES[kind]).format(root=domain)] if kind in SHAPES else []
        parts = [f"{random.choice(('JSON Schema', 'Schema', 'The schema'))}:\n{schema}", text]
        said = "\n\n".join(_shuffled_parts(random, " ".join(order), parts))
        key = json.dumps([kind, domain, field.value], sort_keys=True)
        digest = Made({}, key=key).digest
        row = {
            "id": int.from_bytes(digest, "big") >> 12,  # of 52 bits: any reader of JSON keeps it
            "responses_create_params": {"input": [{"role": "user", "content": said}]},
            "schema_str": schema,
            "schema_type": kind,
            "schema_fields_count": sum(1 for _ in leaves(field.value)),
            "agent_ref": {"type": "responses_api_agents", "name": "structured_outputs_simple_agent"},
        }
        return Made(row, answer=write(kind, field.value), key=key)


def choose(random: Random, spec: dict[str, Spec], level: Level) -> tuple[dict[str, Spec], dict[str, Spec]]:
    """Some of a domain's plain fields, and some of those that hold others."""
    plain = [name for name, one in spec.items() if isinstance(one, str) and one != "words"]
    nested = [name for name in spec if name not in plain]
    chosen = random.sample(plain, random.randint(*level.fields))
    inner = random.sample(nested, min(level.nested, len(nested)))
    return {name: spec[name] for name in chosen}, {name: spec[name] for name in inner}


def _shuffled(random: Random, spec: dict[str, Spec]) -> dict[str, Spec]:
    return {name: spec[name] for name in random.sample(list(spec), len(spec))}


def _shuffled_parts(random: Random, order: str, parts: list[str]) -> list[str]:
    parts = random.sample(parts, len(parts))
    return [order, *parts] if random.random() < 0.5 else [*parts, order]


def leaves(value: Any) -> Iterator[Any]:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else None
    if inner is None:
        yield value
    else:
        for one in inner:
            yield from leaves(one)


def tell(random: Random, domain: str, value: Any, level: Level) -> str:
    """The record in sentences; those about one thing stay together, their order says nothing."""
    article = "an" if domain[0] in "aeiou" else "a"
    if isinstance(value, list):
        said = [random.choice(TABLES).format(count=len(value), article=article, domain=domain)]
        return "\n".join([*said, *(_numbered(random, number, one) for number, one in enumerate(value, 1))])
    facts = [_statements(random, _label(name), one) for name, one in value.items()]
    facts += [sentence(random) for _ in range(level.chatter)]
    opening = random.choice(OPENINGS).format(article=article, domain=domain)
    return random.choice((" ", "\n")).join([opening, *random.sample(facts, len(facts))])


def _statements(random: Random, label: str, value: Any) -> str:
    if isinstance(value, dict):
        return " ".join(_statements(random, f"{_label(name)} of the {label}", one) for name, one in value.items())
    if isinstance(value, list) and isinstance(value[0], dict):
        return "\n".join(
            [f"There are {len(value)} {label}:", *(_numbered(random, at, one) for at, one in enumerate(value, 1))]
        )
    if isinstance(value, list):
        return f"The list of {label}: {', '.join(map(str, value))}."
    return random.choice(TELLING).format(label=label, value=_said(value))


def _numbered(random: Random, number: int, record: dict[str, Any]) -> str:
    parts = [f"{_label(name)} {_said(one)}" for name, one in record.items()]
    return f"{number}. {', '.join(random.sample(parts, len(parts)))}."


def _said(value: Any) -> str:
    return {True: "yes", False: "no"}[value] if isinstance(value, bool) else str(value)


def _label(name: str) -> str:
    return name.replace("_", " ")


if __name__ == "__main__":
    raise SystemExit(main(StructuredOutputsGenerator()))

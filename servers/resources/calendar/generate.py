"""Makes rows of scheduling by conversation: python generate.py --count 100 --seed 7 --difficulty hard > rows.jsonl.

A day is planned first and its constraints are read off the plan: each row can be solved.
"""

import json
from random import Random
from typing import Any, Final, NamedTuple

from gym.server.generating import Made, main, make_row
from gym.server.words import CITIES, FIRST_NAMES, JOBS, PLACES, THINGS, sentence


class Level(NamedTuple):
    events: tuple[int, int]
    spare: tuple[float, float]  # share of the day that stays free
    grid: int  # minutes: every time is a multiple
    slack: int  # grid steps that a constraint may be wider than its event, at most
    changes: int  # events that are moved or cancelled on the way, at most
    chat: float  # how often a message asks for nothing


LEVELS: Final = {
    "easy": Level((2, 3), (0.4, 0.7), 30, 6, 0, 0.0),
    "medium": Level((4, 6), (0.2, 0.4), 30, 6, 1, 0.1),
    "hard": Level((7, 9), (0.08, 0.2), 15, 10, 3, 0.2),
    "extreme": Level((10, 14), (0.02, 0.1), 15, 14, 6, 0.3),
}
DAYS: Final = (((8, 11), (14, 17)), ((8, 10), (16, 19)), ((8, 10), (17, 20)), ((7, 9), (19, 22)))  # of each level
EVENTS: Final = (
    "Call with {name}",
    "Lunch with {name}",
    "Interview with {name}",
    "Visit to the {place}",
    "Trip report from {city}",
    "Review of the {thing} budget",
    "Meeting with the {job}",
    "Training at the {place}",
    "Talk about the {thing}",
    "Walk to the {place}",
    "Delivery of a {thing}",
    "Piano lesson with {name}",
)
SYSTEMS: Final = (
    "You keep one calendar for one day, {first} to {last}. After every message of the user give the whole calendar as "
    'a JSON list of {{"event_id", "event_name", "start_time", "duration"}}: start_time like {like}, duration in '
    "minutes. Events may not overlap.",
    "You plan one working day that begins at {first} and is over at {last}. No two events may overlap. Answer each "
    "message with the full list of events in JSON; every event has event_id, event_name, start_time (such as {like}) "
    "and duration in minutes.",
    "A user fills the calendar of a single day with you. It is open from {first} to {last}, and only one event can "
    'take place at a time. Reply with all events so far: [{{"event_id": …, "event_name": …, "start_time": …, '
    '"duration": …}}]. The duration is in minutes, and a start_time looks like {like}.',
)
ADDS: Final = (
    "Please add «{name}», {minutes} minutes, {when}. Its event_id is {id}.",
    "I also need «{name}» ({minutes} minutes), {when}; event_id {id}.",
    "Event {id} is «{name}». It takes {minutes} minutes, {when}.",
    "Can you fit in «{name}» for {minutes} minutes, {when}? Give it event_id {id}.",
)
MOVES: Final = (
    "Event {id}, «{name}», has changed: it is now {minutes} minutes, {when}.",
    "Please move «{name}» (event_id {id}). It has to be {minutes} minutes long, {when}; what I said before is void.",
)
CANCELS: Final = (
    "«{name}» is off; please take event {id} out again.",
    "Please cancel event {id}, «{name}».",
)
CHATS: Final = ("By the way: {sentence} Nothing changes.", "{sentence} But leave the calendar as it is.")
REPLIES: Final = ("Noted; what else?", "All right.", "Done. Anything else?", "Very well.", "Noted.")
WHEN: Final = {
    "before": ("so that it is over by {end}", "to be finished by {end} at the latest"),
    "after": ("not before {start}", "at {start} or later"),
    "between": ("between {start} and {end}", "somewhere from {start} to {end}"),
    "at": ("at {start}", "starting at {start} sharp"),
    "": ("whenever it fits", "at any time of the day"),
}


class Event(NamedTuple):
    """A planned event with the constraint that the user names."""

    id: int
    name: str
    start: int  # minutes since midnight
    duration: int
    kind: str
    begin: int
    end: int

    def constraint(self, clock: "Clock") -> str | None:
        begin, end = clock.write(self.begin), clock.write(self.end)
        texts = {"between": f"between {begin} and {end}", "before": f"before {end}"}
        return texts.get(self.kind, f"{self.kind} {begin}" if self.kind else None)


class Clock(NamedTuple):
    """How a conversation writes times."""

    whole_day: bool

    def write(self, minutes: int) -> str:
        hour, minute = divmod(minutes, 60)
        if self.whole_day:
            return f"{hour:02}:{minute:02}"
        tail = f":{minute:02}" if minute else ""
        return f"{(hour - 1) % 12 + 1}{tail}{'pm' if hour >= 12 else 'am'}"


class CalendarGenerator:
    licence = "Apache-2.0"
    difficulties = tuple(LEVELS)

    def make(self, random: Random, difficulty: str) -> Made:
        level = LEVELS[difficulty]
        opens, closes = DAYS[self.difficulties.index(difficulty)]
        first, last = random.randint(*opens) * 60, random.randint(*closes) * 60
        events = plan_day(random, level, first, last)
        clock = Clock(whole_day=random.random() < 0.3)
        messages = [_system(random, clock, first, last), *_conversation(random, level, events, clock)]
        expected = {str(event.id): _expected(event, clock, first, last) for event in events}
        key = f"{first}:{last}:{sorted((one.duration, one.kind, one.begin, one.end) for one in events)}"
        row = make_row("calendar", key, messages, exp_cal_state=expected)
        return Made(row, answer=_answer(events, clock), key=key)


def plan_day(random: Random, level: Level, first: int, last: int) -> list[Event]:
    """Events one behind another with gaps between, each with a constraint that its place keeps to."""
    count = random.randint(*level.events)
    steps = (last - first) // level.grid
    busy = max(count, round(steps * (1 - random.uniform(*level.spare))))
    lengths = _split(random, busy, count)
    gaps = [part - 1 for part in _split(random, steps - sum(lengths) + count + 1, count + 1)]
    ids, names = list(range(count)), _names(random, count)
    random.shuffle(ids)
    events, at = [], first
    for id_, gap, length in zip(ids, gaps, lengths, strict=False):
        at += gap * level.grid
        duration = length * level.grid
        events.append(_constrain(random, level, Event(id_, names[id_], at, duration, "", first, last)))
        at += duration
    return sorted(events)


def _split(random: Random, total: int, parts: int) -> list[int]:
    """Whole numbers of at least 1 with that sum."""
    cuts = [0, *sorted(random.sample(range(1, total), parts - 1)), total]
    return [end - start for start, end in zip(cuts, cuts[1:], strict=False)]


def _names(random: Random, count: int) -> list[str]:
    found: dict[str, None] = {}
    while len(found) < count:
        form = random.choice(EVENTS)
        words = {"name": FIRST_NAMES, "place": PLACES, "city": CITIES, "thing": THINGS, "job": JOBS}
        found[form.format(**{slot: random.choice(options) for slot, options in words.items()})] = None
    return list(found)


def _constrain(random: Random, level: Level, event: Event) -> Event:
    """`event.begin` and `event.end` are those of the day."""
    kind = random.choices(("before", "after", "between", "at", ""), (3, 3, 4, 2, 1))[0]
    begin = max(event.begin, event.start - random.randint(0, level.slack) * level.grid)
    end = min(event.end, event.start + event.duration + random.randint(0, level.slack) * level.grid)
    if kind == "at":
        begin = event.start
    return event._replace(
        kind=kind,
        begin=begin if kind in ("after", "between", "at") else event.begin,
        end=end if kind in ("before", "between") else event.end,
    )


def _system(random: Random, clock: Clock, first: int, last: int) -> dict[str, str]:
    like = '"14:00" or "09:30"' if clock.whole_day else '"10am" or "1:30pm"'
    text = random.choice(SYSTEMS).format(first=clock.write(first), last=clock.write(last), like=like)
    return {"role": "system", "content": text}


def _conversation(random: Random, level: Level, events: list[Event], clock: Clock) -> list[dict[str, str]]:
    """Each event once, some first as something else, others that are cancelled again, and small talk."""
    said = _say(random, level, events, clock)
    messages = []
    for text in said:
        messages += [{"role": "user", "content": text}, {"role": "assistant", "content": random.choice(REPLIES)}]
        if random.random() < level.chat:
            chat = random.choice(CHATS).format(sentence=sentence(random))
            messages += [{"role": "user", "content": chat}, {"role": "assistant", "content": random.choice(REPLIES)}]
    return messages[:-1]


def _say(random: Random, level: Level, events: list[Event], clock: Clock) -> list[str]:
    """What the user asks for, in random order; what changes an event comes behind what adds it."""
    changes = random.randint(0, level.changes)
    moved = {event.id for event in random.sample(events, min(changes // 2, len(events)))}
    cancelled = _cancelled(random, events, changes - len(moved))
    texts: dict[int, list[str]] = {}
    for event in [*events, *cancelled]:
        first = _before(random, event) if event.id in moved else event
        texts[event.id] = [_word(random, ADDS, first, clock)]
        if first != event or event in cancelled:
            texts[event.id].append(_word(random, CANCELS if event in cancelled else MOVES, event, clock))
    order = [id_ for id_, own in texts.items() for _ in own]
    random.shuffle(order)
    rest = {id_: iter(own) for id_, own in texts.items()}
    return [next(rest[id_]) for id_ in order]


def _cancelled(random: Random, events: list[Event], count: int) -> list[Event]:
    """Events that do not stay; their ids follow those that do."""
    names = [one for one in _names(random, count + len(events)) if one not in {event.name for event in events}]
    models = [random.choice(events) for _ in range(count)]
    return [_before(random, model._replace(id=len(events) + at, name=names[at])) for at, model in enumerate(models)]


def _before(random: Random, event: Event) -> Event:
    """What the user wanted at first."""
    return event._replace(duration=random.randint(1, 6) * 15, kind="after", begin=random.randint(8, 12) * 60)


def _word(random: Random, forms: tuple[str, ...], event: Event, clock: Clock) -> str:
    when = random.choice(WHEN[event.kind]).format(start=clock.write(event.begin), end=clock.write(event.end))
    return random.choice(forms).format(name=event.name, minutes=event.duration, when=when, id=event.id)


def _expected(event: Event, clock: Clock, first: int, last: int) -> dict[str, Any]:
    return {
        "event_id": event.id,
        "event_name": event.name,
        "duration": event.duration,
        "constraint": event.constraint(clock),
        "min_time": clock.write(first),
        "max_time": clock.write(last),
    }


def _answer(events: list[Event], clock: Clock) -> str:
    return json.dumps(
        [
            {
                "event_id": event.id,
                "event_name": event.name,
                "start_time": clock.write(event.start),
                "duration": event.duration,
            }
            for event in events
        ],
        ensure_ascii=False,
    )


if __name__ == "__main__":
    raise SystemExit(main(CalendarGenerator()))

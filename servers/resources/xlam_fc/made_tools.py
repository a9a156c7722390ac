"""Tools that are never run, and requests that need them: a request names every value that a right call has."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from typing import Any, Final, NamedTuple

from made_values import KINDS


class MadeTool(NamedTuple):
    """`needs` and `may` map arguments to kinds; a request may end with what `may` have, in their words."""

    domain: str
    name: str
    description: str
    needs: Mapping[str, str]
    requests: tuple[str, ...]
    may: Mapping[str, tuple[str, str]] = {}

    def schema(self) -> dict[str, Any]:
        kinds = {**self.needs, **{name: kind for name, (kind, _) in self.may.items()}}
        return {
            "type": "function",
            "name": self.name,
            "description": self.description,
            "parameters": {
                "type": "object",
                "properties": {name: dict(KINDS[kind].schema) for name, kind in kinds.items()},
                "required": list(self.needs),
            },
            "strict": False,
        }

    def request(self, random: Random, extras: int) -> tuple[dict[str, Any], str]:
        """A call, and the words that ask for it; with at most so many of the arguments that may be left out."""
        chosen = random.sample(list(self.may), min(extras, len(self.may)))
        extra = {name: one for name, one in self.may.items() if name in chosen}
        kinds = {**self.needs, **{name: kind for name, (kind, _) in extra.items()}}
        said = {name: KINDS[kind].make(random) for name, kind in kinds.items()}
        if len({words for _, words in said.values()}) < len(said):  # from here to here, with milk and without milk
            return self.request(random, extras)
        text = random.choice(self.requests).format(**{name: words for name, (_, words) in said.items()})
        text += "".join(words.format(said[name][1]) for name, (_, words) in extra.items())
        return {"name": self.name, "arguments": {name: value for name, (value, _) in said.items()}}, text


TOOLS: Final = (
    MadeTool(
        "money",
        "convert_currency",
        "Convert an amount of money from one currency to another.",
        {"amount": "amount", "source": "currency", "target": "currency"},
        ("convert {amount} {source} to {target}", "work out what {amount} {source} are in {target}"),
        {"date": ("date", ", at the rate of {}")},
    ),
    MadeTool(
        "money",
        "get_exchange_rate",
        "The rate between two currencies, without converting anything.",
        {"source": "currency", "target": "currency"},
        ("tell me the exchange rate from {source} to {target}", "look up how {source} stand against {target}"),
        {"date": ("date", " on {}")},
    ),
    MadeTool(
        "money",
        "loan_payment",
        "The monthly payment of a loan.",
        {"principal": "amount", "rate": "percent", "months": "count"},
        ("what is the monthly payment on a loan of {principal} at {rate} per cent over {months} months",),
    ),
    MadeTool(
        "money",
        "send_money",
        "Pay a person.",
        {"recipient": "person", "amount": "amount", "currency": "currency"},
        ("send {recipient} {amount} {currency}", "pay {amount} {currency} to {recipient}"),
        {"due": ("date", ", due on {}")},
    ),
    MadeTool(
        "travel",
        "search_flights",
        "Flights between two cities on a day.",
        {"origin": "city", "destination": "city", "date": "date"},
        (
            "find flights from {origin} to {destination} on {date}",
            "look for a flight to {destination} from {origin} on {date}",
        ),
        {"cabin": ("cabin", " in {}"), "passengers": ("count", " for {} passengers")},
    ),
    MadeTool(
        "travel",
        "search_trains",
        "Trains between two cities on a day.",
        {"origin": "city", "destination": "city", "date": "date"},
        (
            "find trains from {origin} to {destination} on {date}",
            "which trains go from {origin} to {destination} on {date}",
        ),
        {"earliest": ("time", ", leaving at {} or later")},
    ),
    MadeTool(
        "travel",
        "book_hotel",
        "Book rooms in a city.",
        {"city": "city", "arrival": "date", "nights": "days"},
        ("book a hotel in {city} for {nights} nights from {arrival}",),
        {"guests": ("count", " for {} guests")},
    ),
    MadeTool(
        "travel",
        "get_distance",
        "The distance between two cities.",
        {"origin": "city", "destination": "city", "unit": "unit"},
        (
            "how far is it from {origin} to {destination} in {unit}",
            "give me the distance between {origin} and {destination} in {unit}",
        ),
    ),
    MadeTool(
        "weather",
        "get_forecast",
        "The forecast for the next days.",
        {"city": "city", "days": "days"},
        (
            "get the forecast for {city} for the next {days} days",
            "what will the weather be like in {city} over the next {days} days",
        ),
        {"language": ("language", ", in {}")},
    ),
    MadeTool(
        "weather",
        "get_past_weather",
        "What the weather was like on a day that is over.",
        {"city": "city", "date": "date"},
        ("look up the weather in {city} on {date}", "what was the weather like in {city} on {date}"),
    ),
    MadeTool(
        "weather",
        "get_sunrise",
        "When the sun rises in a city on a day.",
        {"city": "city", "date": "date"},
        ("when does the sun rise in {city} on {date}",),
    ),
    MadeTool(
        "office",
        "create_event",
        "Put an event into the calendar.",
        {"title": "name", "date": "date", "start": "time"},
        (
            "put '{title}' into my calendar on {date} at {start}",
            "make an event '{title}' on {date}, starting at {start}",
        ),
        {"duration": ("minutes", " for {} minutes"), "guest": ("person", ", and invite {}")},
    ),
    MadeTool(
        "office",
        "set_reminder",
        "Be reminded of something, on a day.",
        {"what": "name", "date": "date"},
        ("remind me of '{what}' on {date}",),
        {"time": ("time", " at {}"), "level": ("level", " ({})")},
    ),
    MadeTool(
        "office",
        "delete_event",
        "Take an event out of the calendar.",
        {"title": "name", "date": "date"},
        ("take '{title}' on {date} out of my calendar", "cancel '{title}' on {date}"),
    ),
    MadeTool(
        "office",
        "assign_task",
        "Give a task to a colleague.",
        {"task": "name", "person": "person"},
        ("give the task '{task}' to {person}", "assign '{task}' to {person}"),
        {"due": ("date", " with {} as its due date"), "level": ("level", ", marked {}")},
    ),
    MadeTool(
        "office",
        "translate_file",
        "Translate a file into another language.",
        {"file": "name", "target": "language"},
        ("translate the file '{file}' into {target}",),
        {"source": ("language", ", it is in {} now")},
    ),
    MadeTool(
        "shop",
        "search_products",
        "Look for things to buy.",
        {"product": "thing"},
        ("search the shop for a {product}", "see whether the shop has a {product}"),
        {"colour": ("colour", " in {}"), "max_price": ("amount", ", for {} at the most")},
    ),
    MadeTool(
        "shop",
        "place_order",
        "Buy a number of things.",
        {"product": "thing", "quantity": "count"},
        ("order {quantity} of the item '{product}'", "buy the item '{product}', {quantity} times"),
        {"deliver_on": ("date", ", to be delivered on {}")},
    ),
    MadeTool(
        "shop",
        "track_order",
        "Where an order is.",
        {"order": "code"},
        ("where is my order {order}", "track order {order}"),
    ),
    MadeTool(
        "shop",
        "cancel_order",
        "Cancel an order.",
        {"order": "code"},
        ("cancel order {order}", "I no longer want order {order}, cancel it"),
        {"refund": ("currency", ", and refund me in {}")},
    ),
    MadeTool(
        "kitchen",
        "find_recipes",
        "Recipes with an ingredient.",
        {"ingredient": "food"},
        ("find recipes with {ingredient}", "what can I cook with {ingredient}"),
        {"max_minutes": ("minutes", " in {} minutes or less"), "without": ("food", ", but without {}")},
    ),
    MadeTool(
        "kitchen",
        "add_to_list",
        "Write something on a shopping list.",
        {"item": "food", "list": "name"},
        ("put {item} on the list '{list}'", "add {item} to my list '{list}'"),
        {"quantity": ("count", ", {} pieces")},
    ),
    MadeTool(
        "kitchen",
        "start_timer",
        "Count minutes down.",
        {"minutes": "minutes"},
        ("set a timer for {minutes} minutes", "start a timer of {minutes} minutes"),
        {"label": ("name", " and call it '{}'")},
    ),
    MadeTool(
        "people",
        "find_craftsman",
        "Somebody of a trade near a city.",
        {"trade": "job", "city": "city"},
        ("find me a {trade} in {city}", "I need a {trade} in {city}"),
        {"before": ("date", ", before {}")},
    ),
    MadeTool(
        "people",
        "send_message",
        "Write to somebody: the text of a template, by its name.",
        {"recipient": "person", "template": "name"},
        ("send {recipient} the message '{template}'",),
        {"language": ("language", " in {}"), "at": ("time", ", at {}")},
    ),
    MadeTool(
        "people",
        "get_birthday",
        "When somebody's birthday is.",
        {"person": "person"},
        ("when is {person}'s birthday", "look up {person}'s birthday"),
        {"calendar": ("name", " in the calendar '{}'")},
    ),
)

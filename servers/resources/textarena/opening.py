"""Opens a row's game; says what is missing where the library cannot."""

import difflib

import textarena
from match import Match
from pydantic import Field
from textarena.envs.registration import ENV_REGISTRY

from gym.server import Row
from gym.server.adapters.chance import Chance
from gym.wire.failures import RolloutError

WORDS = "bake them with `python -m nltk.downloader words averaged_perceptron_tagger_eng` and set NLTK_DATA"


class TextArenaRow(Row):
    environment: str  # an id of the package's registry
    players: int = Field(default=1, ge=1, le=15)
    player: int = Field(default=0, ge=0)  # the policy's seat
    seed: int | None = Field(default=None, ge=0)
    settings: dict[str, object] = Field(default_factory=dict)  # of `textarena.make`


def open_match(row: TextArenaRow) -> Match:
    if row.environment not in ENV_REGISTRY:
        close = difflib.get_close_matches(row.environment, ENV_REGISTRY, n=3)
        hint = f": {', '.join(close)}?" if close else ""
        raise RolloutError("row", f"environment: textarena has no {row.environment!r}{hint}")
    if row.player >= row.players:
        raise RolloutError("row", f"player: {row.player} of {row.players} players; the first one is 0")
    chance = Chance(row.seed)
    with chance.lent():
        try:
            game = textarena.make(row.environment, **row.settings)
        except TypeError as error:
            raise RolloutError("row", f"settings: {row.environment}: {error}") from None
        except (ImportError, LookupError, OSError, SyntaxError, ValueError) as error:
            raise RolloutError("resources", _missing(row, error), retryable=False) from None
        try:
            game.reset(num_players=row.players, seed=row.seed)
        except (AssertionError, LookupError, TypeError, ValueError) as error:
            what = f"players, settings: {row.environment} for {row.players} with {row.settings}: {error}"
            raise RolloutError("row", what) from None
    return Match(game, chance, row.player)


def _missing(row: TextArenaRow, error: Exception) -> str:
    said = f"{row.environment} does not run here: {type(error).__name__}: {str(error).strip()[:200]}"
    if isinstance(error, SyntaxError):
        return f'{said}. This game of the package needs Python 3.12: `python_version: "3.12"`'
    if "nltk" in str(error).lower() and isinstance(error, LookupError):
        return f"{row.environment} needs nltk's words, which are not here: {WORDS}"
    return said

"""Opens a row's game; says what is missing where the library cannot."""

import textarena
from match import Match
from pydantic import Field
from textarena.envs.registration import ENV_REGISTRY

from gym.server.adapters.registered import RegisteredRow, find_registered, row_blamed
from gym.wire.failures import RolloutError

WORDS = "bake them with `python -m nltk.downloader words averaged_perceptron_tagger_eng` and set NLTK_DATA"


class TextArenaRow(RegisteredRow):
    players: int = Field(default=1, ge=1, le=15)
    player: int = Field(default=0, ge=0)  # the policy's seat


def open_match(row: TextArenaRow) -> Match:
    find_registered(row.environment, ENV_REGISTRY, "textarena")
    if row.player >= row.players:
        raise RolloutError("row", f"player: {row.player} of {row.players} players; the first one is 0")
    try:
        with row_blamed(f"settings: {row.environment}", TypeError):
            game = textarena.make(row.environment, **row.settings)
    except (ImportError, LookupError, OSError, SyntaxError, ValueError) as error:
        raise RolloutError("resources", _missing(row, error), retryable=False) from None
    what = f"players, settings: {row.environment} for {row.players} with {row.settings}"
    with row_blamed(what, AssertionError, LookupError, TypeError, ValueError):
        game.reset(num_players=row.players, seed=row.seed)
    return Match(game, row.player)


def _missing(row: TextArenaRow, error: Exception) -> str:
    said = f"{row.environment} does not run here: {type(error).__name__}: {str(error).strip()[:200]}"
    if isinstance(error, SyntaxError):
        return f'{said}. This game of the package needs Python 3.12: `python_version: "3.12"`'
    if "nltk" in str(error).lower() and isinstance(error, LookupError):
        return f"{row.environment} needs nltk's words, which are not here: {WORDS}"
    return said

"""The games of the textarena package: for one player, or against a second model."""

from match import Match
from opening import TextArenaRow, open_match

from gym.server.adapters.text_environment import OthersTurn, TextEnvironment
from gym.server.gymnasium import Step


class TextArena(TextEnvironment[Match]):
    own_random = True

    def open(self, row: TextArenaRow) -> tuple[Match, Step | OthersTurn]:
        match = open_match(row)
        return match, match.result()

    def act(self, match: Match, action: str) -> Step | OthersTurn:
        match.move(action)
        return match.result()


app = TextArena.app()

"""Which games of the package run without a network, for how many players, and why the others do not."""

from textarena.envs.registration import ENV_REGISTRY

ALONE = frozenset(
    [
        "2048",
        "Bandit",
        "Blackjack",
        "Countdown",
        "Crosswords",
        "Cryptarithm",
        "FifteenPuzzle",
        "FrozenLake",
        "GuessTheNumber",
        "LightsOut",
        "LogicPuzzle",
        "Mastermind",
        "Minesweeper",
        "PegJump",
        "RushHour",
        "Secretary",
        "Set",
        "Slitherlink",
        "Sokoban",
        "Sudoku",
        "ThreeCardMonte",
        "TowerOfHanoi",
    ]
)
FOR_TWO = frozenset(
    [
        "Alquerque",
        "Battleship",
        "Breakthrough",
        "Briscola",
        "Chopsticks",
        "ColonelBlotto",
        "ConnectFour",
        "Crusade",
        "GameOfPureStrategy",
        "GermanWhist",
        "Golf",
        "HighSociety",
        "IndianPoker",
        "IteratedMatchingPennies",
        "IteratedPrisonersDilemma",
        "IteratedRockPaperScissors",
        "IteratedTwoThirdsAverage",
        "IteratedUltimatumGame",
        "KuhnPoker",
        "LiarsDice",
        "LinesOfAction",
        "MemoryGame",
        "NewRecruit",
        "Nim",
        "Othello",
        "PigDice",
        "Poker",
        "QuantumTicTacToe",
        "SantoriniBaseFixed",
        "SimpleBlindAuction",
        "SimpleNegotiation",
        "SimpleTak",
        "Snake",
        "SpiteAndMalice",
        "Stratego",
        "Surround",
        "Tak",
        "TicTacToe",
        "TruthAndDeception",
        "TwoDollar",
        "UltimateTicTacToe",
        "WildTicTacToe",
    ]
)
# A row may name these: nltk's words must be baked into the image first.
WITH_WORDS = {"Hangman": 1, "WordLadder": 1, "WordSearch": 1, "Wordle": 1, "DontSayIt": 2, "LetterAuction": 2}
COSTLY = frozenset(["RushHour-v0", "Sudoku-v0-hard"])  # a second of CPU time to set up: only where they are asked for


def players_of(environment: str) -> int:
    """Of a game that this server knows to run; 0 for another."""
    game = environment.split("-v0")[0]
    return 1 if game in ALONE else 2 if game in FOR_TWO else WITH_WORDS.get(game, 0)


def known_games() -> tuple[str, ...]:
    plain = (name for name in ENV_REGISTRY if not name.endswith(("-raw", "-train")))
    return tuple(sorted(name for name in plain if players_of(name)))

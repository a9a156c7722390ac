"""Tasks that no rows for training are made of: their answers are wrong, not determined or missing, or cost too much."""

from __future__ import annotations

from typing import Final

# Found in reasoning-gym 0.1.25 by solvers, by reading the code, and by making the same question twice.
DOUBTFUL: Final = {
    "codeio": "one question came with two different answers; programs take random inputs and print floats",
    "color_cube_rotation": "which way the cube turns is not said: bottom to top is a half turn about either axis",
    "decimal_chain_sum": "sums floats and rounds them: from `hard` on a third of the answers has a wrong last digit",
    "game_of_life_halting": "at `extreme` boards are printed with `...` in place of most rows",
    "jugs": "from `medium` on 4 of 27 answers were `No solution` where there is one, and the score gives that 0",
    "letter_jumble": "another English word may be made of the same letters; one is right",
    "list_functions": "more than one rule fits the examples; one is right",
    "modulo_grid": "more than one rule may fit the part that is shown; one is right",
    "number_sequence": "more than one rule fits the numbers that are shown; one is right",
    "power_function": "`-2.5^2` is written without brackets, and its answer is that of (-2.5)^2",
    "sentence_reordering": "another order of the words may be as good a sentence; one is right",
    "syllogism": "of 300 answers 38 are wrong (an undistributed middle term), 48 hang on whether a class may be empty",
}
# They keep no answer of their own that could be proven; their scores judge the one that is given.
WITHOUT_ANSWER: Final = {"boxnet", "graph_color", "propositional_logic", "rubiks_cube", "rush_hour"}
# The same seed makes other rows in another process (order of sets), or on another day (`time_intervals`).
UNSTABLE: Final = {"isomorphic_strings", "polynomial_multiplication", "ransom_note", "time_intervals", "word_ladder"}
# More than 0.3 s of CPU time a row at some difficulty: a search, a symbolic integral, a file that is read each time.
# `sokoban` also keeps 100 MB a row.
COSTLY: Final = {"arc_agi", "bf", "futoshiki", "knight_swap", "puzzle24", "rearc", "sokoban"}
# Beyond them a row may never end: from 41 fields on arc_1d looks for a tenth of nine colours.
CAPS: Final = {"arc_1d": {"max_size": 40}}
LONGEST: Final = 100_000  # characters; a longer answer is not looked at, so no row may want one

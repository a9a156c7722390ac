"""A second opinion on the package's answers: logic, graphs and grids. Each solver reads the question alone."""

from __future__ import annotations

import ast
import json
import re
from collections import Counter, deque
from collections.abc import Iterator
from itertools import product
from typing import Final

from solvers import Solver, after, integers

Grid = list[list[str]]
_AROUND: Final = ((0, 1), (1, 0), (0, -1), (-1, 0))
_MOVES: Final = {"right": (0, 1), "down": (1, 0), "left": (0, -1), "up": (-1, 0)}


def grid(text: str) -> Grid:
    """The last rows of a text that hold cells with blanks between."""
    rows: Grid = []
    for line in reversed(text.strip().splitlines()):
        cells = re.sub(r"[\[\],.]", " ", line).split()
        if any(len(cell) > 4 for cell in cells) or (rows and len(cells) != len(rows[-1])):
            break
        rows.append(cells)
    return rows[::-1]


def cells(rows: Grid) -> Iterator[tuple[int, int, str]]:
    return ((y, x, cell) for y, row in enumerate(rows) for x, cell in enumerate(row))


def spread(rows: Grid, starts: list[tuple[int, int]], passable: str) -> dict[tuple[int, int], int]:
    """Steps from the nearest start to each cell that can be reached."""
    distance = {start: 0 for start in starts}
    queue = deque(starts)
    while queue:
        y, x = queue.popleft()
        for dy, dx in _AROUND:
            to = y + dy, x + dx
            inside = 0 <= to[0] < len(rows) and 0 <= to[1] < len(rows[0])
            if inside and to not in distance and rows[to[0]][to[1]] in passable:
                distance[to] = distance[y, x] + 1
                queue.append(to)
    return distance


def follows(premises: list[str], conclusion: str) -> set[bool]:
    """Whether it follows, in logic today and in Aristotle's (no term is empty): one answer where both agree."""
    terms = sorted({term for one in (*premises, conclusion) for term in _statement(one)[1:]})
    kinds = list(product((False, True), repeat=len(terms)))
    found = set()
    for may_be_empty in (True, False):
        valid = True
        for present in product((False, True), repeat=len(kinds)):
            world = [dict(zip(terms, kind, strict=True)) for kind, there in zip(kinds, present, strict=True) if there]
            if not may_be_empty and not all(any(thing[term] for thing in world) for term in terms):
                continue
            if all(_holds(one, world) for one in premises) and not _holds(conclusion, world):
                valid = False
                break
        found.add(valid)
    return found


def _statement(text: str) -> tuple[str, str, str]:
    quantifier, left, nots, right = re.findall(r"(All|No|Some) (\w+) are (not )?(\w+)", text)[0]
    return f"{quantifier} not" if nots else quantifier, left, right


def _holds(text: str, world: list[dict[str, bool]]) -> bool:
    quantifier, left, right = _statement(text)
    both = any(thing[left] and thing[right] for thing in world)
    only = any(thing[left] and not thing[right] for thing in world)
    return {"All": not only, "No": not both, "Some": both, "Some not": only}[quantifier]


def _syllogism(question: str, answer: str) -> bool:
    premises, conclusion = re.findall(r"\d\. (.*)", question), re.findall(r"follow that:\s*(.*)\?", question)[0]
    return follows(premises, conclusion) == {answer == "Yes"}


def _self_reference(question: str, answer: str) -> bool:
    at_least, _, at_most, _, true, _, false, _ = integers(" ".join(re.findall(r"'(?:At|Exactly)[^']*'", question)))
    primes, composites = (2, 3, 5, 7), (4, 6)
    count = 0
    for said in product((False, True), repeat=7):
        yes, no = sum(said), 7 - sum(said)
        facts = (
            yes >= at_least,
            no <= at_most,
            yes == true,
            no == false,
            said[2] != said[3],
            yes in primes,
            no in composites,
        )
        count += said == facts
    return count == int(answer)


def _course_schedule(question: str, answer: str) -> bool:
    needs = ast.literal_eval(re.findall(r"\[\(.*\)\]|\[\]", question)[0])
    open_, changed = {one for pair in needs for one in pair}, True
    while changed:
        free = {one for one in open_ if not any(after_ == one and before in open_ for after_, before in needs)}
        open_, changed = open_ - free, bool(free)
    return (not open_) == (answer == "True")


def _binary_matrix(question: str, answer: str) -> bool:
    rows = grid(question)
    distance = spread(rows, [(y, x) for y, x, cell in cells(rows) if cell == "0"], "01")
    return all(distance.get((y, x), -1) == int(cell) for y, x, cell in cells(grid(answer)))


def _rotten_oranges(question: str, answer: str) -> bool:
    rows = grid(question)
    distance = spread(rows, [(y, x) for y, x, cell in cells(rows) if cell == "2"], "1")
    fresh = [distance.get((y, x), -1) for y, x, cell in cells(rows) if cell == "1"]
    return (-1 if -1 in fresh else max(fresh, default=0)) == int(answer)


def _largest_island(question: str, answer: str) -> bool:
    rows = grid(question.partition("\n\nAn island")[0])
    sizes = [len(spread(rows, [(y, x)], "1")) for y, x, cell in cells(rows) if cell == "1"]
    return max(sizes, default=0) == int(answer)


def _spiral_matrix(question: str, answer: str) -> bool:
    rows, read = grid(question), list[str]()
    while rows:
        read += rows[0]
        rows = [list(column) for column in zip(*rows[1:], strict=True)][::-1]
    return read == answer.split()


def _rotate_matrix(question: str, answer: str) -> bool:
    rows = grid(question)
    for _ in range(int(re.findall(r"by (\d+) degrees", question)[0]) // 90 % 4):
        rows = [list(column) for column in zip(*rows[::-1], strict=True)]
    return rows == grid(answer)


def _shortest_path(question: str, answer: str) -> bool:
    rows = grid(question)
    at = {cell: (y, x) for y, x, cell in cells(rows)}
    least = spread(rows, [at["*"]], "O#").get(at["#"])
    if least is None or answer == "infeasible":
        return least is None and answer == "infeasible"
    y, x = at["*"]
    for step in answer.split():
        y, x = y + _MOVES[step][0], x + _MOVES[step][1]
        if not (0 <= y < len(rows) and 0 <= x < len(rows[0])) or rows[y][x] == "X":
            return False
    return (y, x) == at["#"] and len(answer.split()) == least


def _maze(question: str, answer: str) -> bool:
    rows = [list(line) for line in question.split("```")[1].strip("\n").splitlines()]
    start, goal = re.findall(r"from '(.)' \(start\) to '(.)' \(goal\)", question)[0]
    way = re.findall(r"'(.)' = Passage", question)[0]
    at = {cell: (y, x) for y, x, cell in cells(rows)}
    return spread(rows, [at[start]], way + goal).get(at[goal]) == int(answer)


def live(board: set[tuple[int, int]], height: int, width: int) -> set[tuple[int, int]]:
    """The next generation of Life on a board whose edges meet."""
    around = Counter(
        ((y + dy) % height, (x + dx) % width) for y, x in board for dy, dx in product((-1, 0, 1), repeat=2) if dy or dx
    )
    return {cell for cell, count in around.items() if count == 3 or (count == 2 and cell in board)}


def _board(text: str) -> tuple[set[tuple[int, int]], int, int]:
    rows = [re.findall(r"[01]", line) for line in re.findall(r"^\s*\[+[01 ,]+\]+", text, re.MULTILINE)]
    return {(y, x) for y, x, cell in cells(rows) if cell == "1"}, len(rows), len(rows[0])


def _game_of_life(question: str, answer: str) -> bool:
    board, height, width = _board(question)
    for _ in range(int(re.findall(r"after (\d+) steps?", question)[0])):
        board = live(board, height, width)
    return board == {(y, x) for y, row in enumerate(json.loads(answer)) for x, cell in enumerate(row) if cell}


def _game_of_life_halting(question: str, answer: str) -> bool:
    board, height, width = _board(question.partition("Initial board:")[2])
    for _ in range(int(re.findall(r"before (\d+) steps", question)[0])):
        board = live(board, height, width)
    return (not board) == (answer == "True")


def _sudoku(question: str, answer: str) -> bool:
    """Whether the answer fills the puzzle by its rules."""
    filled = grid(answer)
    size = len(filled)
    block = int(size**0.5)
    lines = [line for line in question.splitlines() if len(line.split()) == size and set(line) <= set("123456789_ ")]
    kept = all(
        given in ("_", cell)
        for line, row in zip(lines, filled, strict=True)
        for given, cell in zip(line.split(), row, strict=True)
    )
    groups = [[] for _ in range(3 * size)]  # type: list[list[str]]
    for y, x, cell in cells(filled):
        for group in (y, size + x, 2 * size + y // block * block + x // block):
            groups[group].append(cell)
    return kept and all(sorted(group) == sorted("123456789"[:size]) for group in groups)


def _n_queens(question: str, answer: str) -> bool:
    filled, given = grid(answer), grid(question)
    queens = [(y, x) for y, x, cell in cells(filled) if cell == "Q"]
    kept = all(cell == "_" or filled[y][x] == "Q" for y, x, cell in cells(given))
    lines = [
        len({way(y, x) for y, x in queens})
        for way in (lambda y, x: y, lambda y, x: x, lambda y, x: y + x, lambda y, x: y - x)
    ]
    return kept and lines == [len(filled)] * 4 and len(queens) == len(filled)


def _cryptarithm(question: str, answer: str) -> bool:
    digits = dict(re.findall(r"([A-Z])=(\d)", answer))
    *terms, total = [
        "".join(digits[one] for one in word)
        for word in re.findall(r"^\W*([A-Z]+)\s*$", question.partition("Each letter")[0], re.MULTILINE)
    ]
    plain = "No leading letter can be zero" not in question or all(word[0] != "0" for word in (*terms, total))
    return plain and len(set(digits.values())) == len(digits) and sum(map(int, terms)) == int(total)


def _jugs(question: str, answer: str) -> bool:
    room = {name: int(size) for name, size in re.findall(r"([A-Z]):(\d+)", question)}
    target, held = int(re.findall(r"target is: (\d+)", question)[0]), dict.fromkeys(room, 0)
    for move in json.loads(answer):
        verb, what = move.split()
        if verb == "pour":
            one, other = what.split("->")
            flow = min(held[one], room[other] - held[other])
            held[one], held[other] = held[one] - flow, held[other] + flow
        else:
            held[what] = room[what] if verb == "fill" else 0
    return target in held.values()


def _ab(question: str, answer: str) -> bool:
    tokens = after(question.rpartition("\n\nReturn")[0], "\n").split()
    rules = {("A#", "#A"): [], ("A#", "#B"): ["#B", "A#"], ("B#", "#A"): ["#A", "B#"], ("B#", "#B"): []}  # type: dict[tuple[str, str], list[str]]
    at = 0
    while at < len(tokens) - 1:
        if (pair := (tokens[at], tokens[at + 1])) in rules:
            tokens[at : at + 2] = rules[pair]
            at = max(at - 1, 0)
        else:
            at += 1
    return tokens == answer.split()


def _bf(question: str, answer: str) -> bool:
    program = re.findall(r"^[-+<>.,\[\]]+$", question, re.MULTILINE)[0]
    jumps, stack = dict[int, int](), list[int]()
    for at, sign in enumerate(program):
        if sign == "[":
            stack.append(at)
        elif sign == "]":
            begin = stack.pop()
            jumps[begin], jumps[at] = at, begin
    tape, head, at, written = Counter[int](), 0, 0, ""
    while at < len(program):
        sign = program[at]
        head += (sign == ">") - (sign == "<")
        tape[head] = (tape[head] + (sign == "+") - (sign == "-")) % 256
        written += chr(tape[head]) if sign == "." else ""
        if (sign == "[" and not tape[head]) or (sign == "]" and tape[head]):
            at = jumps[at]
        at += 1
    return written == answer


def _tower_of_hanoi(question: str, answer: str) -> bool:
    disks, pegs = integers(re.findall(r"with (\d+ disks and \d+) pegs", question)[0])
    start, goal = integers(re.findall(r"from Peg (\d+ to Peg \d+)", question)[0])
    towers = {peg: list(range(disks, 0, -1)) if peg == start else [] for peg in range(1, pegs + 1)}
    for move in answer.strip().splitlines():
        disk, one, other = integers(move)
        if towers[one][-1:] != [disk] or (towers[other] and towers[other][-1] < disk):
            return False
        towers[other].append(towers[one].pop())
    return len(towers[goal]) == disks


SOLVERS: Final[dict[str, Solver]] = {
    "ab": _ab,
    "bf": _bf,
    "binary_matrix": _binary_matrix,
    "course_schedule": _course_schedule,
    "cryptarithm": _cryptarithm,
    "game_of_life": _game_of_life,
    "game_of_life_halting": _game_of_life_halting,
    "jugs": _jugs,
    "largest_island": _largest_island,
    "maze": _maze,
    "mini_sudoku": _sudoku,
    "n_queens": _n_queens,
    "rotate_matrix": _rotate_matrix,
    "rotten_oranges": _rotten_oranges,
    "self_reference": _self_reference,
    "shortest_path": _shortest_path,
    "spiral_matrix": _spiral_matrix,
    "sudoku": _sudoku,
    "syllogism": _syllogism,
    "tower_of_hanoi": _tower_of_hanoi,
}

"""A second opinion on the package's answers: numbers, words, lists. Each solver reads the question, not the metadata.

A solver says whether an answer is right; `puzzle_solvers` has those of logic and grids.
"""

from __future__ import annotations

import ast
import json
import operator
import re
from collections import Counter
from collections.abc import Callable
from decimal import ROUND_HALF_UP, Context, Decimal
from fractions import Fraction
from itertools import product
from math import comb, gcd, lcm
from typing import Any, Final

Solver = Callable[[str, str], bool]  # question, answer
_OPERATORS: Final[dict[type[ast.AST], Callable[..., Any]]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.USub: operator.neg,
    ast.UAdd: operator.pos,
    ast.LShift: operator.lshift,
    ast.RShift: operator.rshift,
}
_DIGITS: Final = "0123456789abcdefghijklmnopqrstuvwxyz"


def value(expression: str, *, number: Callable[[str], Any] = Fraction) -> Any:
    """Of plain arithmetic, exactly."""
    return _value(ast.parse(expression.strip(), mode="eval").body, expression.strip(), number)


def _value(node: ast.AST, text: str, number: Callable[[str], Any]) -> Any:
    if isinstance(node, ast.BinOp):
        return _OPERATORS[type(node.op)](_value(node.left, text, number), _value(node.right, text, number))
    if isinstance(node, ast.UnaryOp):
        return _OPERATORS[type(node.op)](_value(node.operand, text, number))
    return number(ast.get_source_segment(text, node) or "")


def near(exact: Fraction, answer: str) -> bool:
    """The same but for the last digits of a float."""
    return bool(abs(Fraction(answer.replace(",", "")) - exact) <= abs(exact) / 10**8)


def after(text: str, mark: str) -> str:
    """What stands behind the last mark."""
    return text.rpartition(mark)[2].strip()


def integers(text: str) -> list[int]:
    return [int(one) for one in re.findall(r"-?\d+", text)]


def words(text: str) -> list[str]:
    return [one.strip() for one in text.split(",")]


def _arithmetic(question: str, answer: str) -> bool:
    found = re.search(r"[-\d(][-+*/().\d\s]*\d[\s)]*", question)
    return found is not None and value(found[0]) == Fraction(answer)


def _decimal_arithmetic(question: str, answer: str) -> bool:
    """Exact here; the package rounds on the way, so the last digit is left to it."""
    digits = int(re.findall(r"maximum of (\d+) sig", question)[0])
    exact = value(question.splitlines()[1].rpartition("=")[0])
    rounded = Context(prec=digits, rounding=ROUND_HALF_UP).divide(Decimal(exact.numerator), Decimal(exact.denominator))
    return abs(Decimal(answer) - rounded) <= abs(rounded) * Decimal(10) ** (2 - digits)


def _bitwise(question: str, answer: str) -> bool:
    return bool(value(question.splitlines()[1], number=lambda text: int(text, 16)) == int(answer, 16))


def _gcd(question: str, answer: str) -> bool:
    return gcd(*integers(question)) == int(answer)


def _lcm(question: str, answer: str) -> bool:
    return lcm(*integers(question)) == int(answer)


def _base_conversion(question: str, answer: str) -> bool:
    for name, number in (("binary", 2), ("hexadecimal", 16)):
        question = question.replace(name, f"base-{number}")
    base, digits, other = re.findall(r"base-(\d+) number (\w+) to base-(\d+)", question)[0]
    return int(digits, int(base)) == int(answer, int(other)) and set(answer) <= set(_DIGITS[: int(other)])


def _count_bits(question: str, answer: str) -> bool:
    return integers(question)[-1].bit_count() == int(answer)


def _count_primes(question: str, answer: str) -> bool:
    start, end = integers(question)
    sieve = bytearray([1]) * (end + 1)
    sieve[:2] = b"\0\0"
    for number in range(2, int(end**0.5) + 1):
        if sieve[number]:
            sieve[number * number :: number] = bytes(len(range(number * number, end + 1, number)))
    return sum(sieve[start:]) == int(answer)


def _prime_factorization(question: str, answer: str) -> bool:
    number, factors = integers(question)[0], integers(answer)
    primes = all(all(one % other for other in range(2, int(one**0.5) + 1)) for one in factors)
    for factor in factors:
        number = number // factor if number % factor == 0 else 0
    return number == 1 and primes and factors == sorted(factors)


def _fraction_simplification(question: str, answer: str) -> bool:
    given, simplified = integers(question)[:2], integers(answer)
    return Fraction(*given) == Fraction(*simplified) and gcd(*simplified) == 1


def _simple_equations(question: str, answer: str) -> bool:
    left, right = after(question, ": ").split("=")
    letter = re.findall(r"[a-zA-Z]", left + right)[0]
    put = [value(re.sub(rf"\b{letter}\b", f"({answer})", side)) for side in (left, right)]
    return bool(put[0] == put[1])


def _countdown(question: str, answer: str) -> bool:
    given = integers(question.partition("\n")[0])
    target, numbers = (given[-1], given[:-1]) if question.startswith("Using") else (given[0], given[1:])
    return bool(value(answer) == target) and Counter(integers_used(answer)) == Counter(numbers)


def _puzzle24(question: str, answer: str) -> bool:
    numbers = re.findall(r"using (.*)\. You", question)[0]
    return bool(value(answer) == 24) and Counter(integers_used(answer)) == Counter(integers(numbers))


def integers_used(expression: str) -> list[int]:
    return [int(one) for one in re.findall(r"\d+", expression)]


def _coin_flip(question: str, answer: str) -> bool:
    kind, heads, flips = re.findall(r"(exactly|at least|at most) (\d+) heads? in (\d+)", question)[0]
    n, k = int(flips), int(heads)
    ways = {"exactly": range(k, k + 1), "at least": range(k, n + 1), "at most": range(k + 1)}[kind]
    return near(Fraction(sum(comb(n, one) for one in ways), 2**n), answer)


def _dice(question: str, answer: str) -> bool:
    sums = {0: 1}
    listed, target = re.findall(r"dice: (.*?)\. .*rolling (\d+) or higher", question)[0]
    for sides in (int(one) for one in re.findall(r"1d(\d+)", listed)):
        after_roll: Counter[int] = Counter()
        for total, pip in product(sums, range(1, sides + 1)):
            after_roll[total + pip] += sums[total]
        sums = dict(after_roll)
    right = sum(ways for total, ways in sums.items() if total >= int(target))
    return Fraction(right, sum(sums.values())) == Fraction(answer)


def _letter_counting(question: str, answer: str) -> bool:
    letter, text = re.findall(r'letter "(.)" appear in the text: "(.*)"\?', question, re.DOTALL)[0]
    return text.lower().count(letter.lower()) == int(answer)


def _spell_backward(question: str, answer: str) -> bool:
    return after(question, ": ")[::-1] == answer


def _word_sequence_reversal(question: str, answer: str) -> bool:
    return words(after(question, "words: "))[::-1] == words(answer)


def _word_sorting(question: str, answer: str) -> bool:
    given = words(after(question, "list: "))
    return sorted(given, reverse="in descending order (using" in question) == words(answer)


def _caesar_cipher(question: str, answer: str) -> bool:
    cipher = re.findall(r"text: (.*?)\. Provide", question, re.DOTALL)[0]
    shifts = {(ord(one) - ord(other)) % 26 for one, other in zip(cipher, answer, strict=True) if other.isalpha()}
    return len(shifts) == 1


def _isomorphic_strings(question: str, answer: str) -> bool:
    one, other = question.strip().splitlines()[-1].split()
    pairs = set(zip(one, other, strict=True))
    return (len({left for left, _ in pairs}) == len({right for _, right in pairs}) == len(pairs)) == (answer == "True")


def _group_anagrams(question: str, answer: str) -> bool:
    given, groups = json.loads(question.strip().splitlines()[-1]), json.loads(answer)
    keys = ["".join(sorted(group[0])) for group in groups]
    held = all("".join(sorted(word)) == key for key, group in zip(keys, groups, strict=True) for word in group)
    return held and len(set(keys)) == len(keys) and Counter(sum(groups, [])) == Counter(given)


def _ransom_note(question: str, answer: str) -> bool:
    note, magazine = re.findall(r"Ransom note: (\w*)\s+Magazine: (\w*)", question)[0]
    return (not Counter(note) - Counter(magazine)) == (answer == "True")


def _palindrome_generation(question: str, answer: str) -> bool:
    return answer == answer[::-1] and Counter(words(after(question, "letters: "))) == Counter(answer)


def _palindrome_partitioning(question: str, answer: str) -> bool:
    text = after(question, "palindromes: ")
    found = json.loads(answer)
    right = []
    for cuts in product((False, True), repeat=max(len(text) - 1, 0)):
        marked = "".join(letter + ("|" if cut else "") for letter, cut in zip(text, (*cuts, False), strict=True))
        parts = marked.split("|")
        if all(part == part[::-1] for part in parts):
            right.append(parts)
    return sorted(found) == sorted(right)


def _number_sorting(question: str, answer: str) -> bool:
    given = re.findall(r"-?\d+\.?\d*", question.splitlines()[0])
    numbers = sorted((Fraction(one) for one in given), reverse="descending" in question.splitlines()[0])
    return [Fraction(one) for one in ast.literal_eval(answer)] == numbers


def _number_filtering(question: str, answer: str) -> bool:
    does, side, limit = re.findall(r"(Keep|Remove) all numbers (larger|smaller) than (-?[\d.]*\d)", question)[0]
    given = ast.literal_eval(re.findall(r"\[.*?\]", question)[0])
    keep = []
    for one in given:
        beyond = Fraction(one) > Fraction(limit) if side == "larger" else Fraction(one) < Fraction(limit)
        keep += [one] if beyond == (does == "Keep") else []
    return bool(ast.literal_eval(answer) == keep)


def _number_format(question: str, answer: str) -> bool:
    size, listed = re.findall(r"pick the (\w+) number of the following candidates: (.*)", question)[0]
    numbers = [Fraction(one.replace(",", "")) for one in listed.split()]
    wanted = max(numbers) if size == "largest" else min(numbers)
    return near(wanted, answer)  # candidates are printed with float noise


def _binary_alternation(question: str, answer: str) -> bool:
    bits = after(question, ": ")
    forms = ["".join("01"[(at + first) % 2] for at in range(len(bits))) for first in (0, 1)]
    costs = [
        sum(one != other for one, other in zip(bits, form, strict=True)) // 2
        for form in forms
        if Counter(form) == Counter(bits)
    ]
    return min(costs, default=-1) == int(answer)


def _power_function(question: str, answer: str) -> bool:
    base, exponent = re.findall(r"Compute (-?[\d.]+)\^(-?\d+)\.", question)[0]
    exact = Fraction(base) ** int(exponent) if Fraction(base) else Fraction(0)
    return bool(abs(Fraction(answer) - exact) <= abs(exact) / 100)


SOLVERS: Final[dict[str, Solver]] = {
    "basic_arithmetic": _arithmetic,
    "base_conversion": _base_conversion,
    "binary_alternation": _binary_alternation,
    "bitwise_arithmetic": _bitwise,
    "caesar_cipher": _caesar_cipher,
    "chain_sum": _arithmetic,
    "coin_flip": _coin_flip,
    "count_bits": _count_bits,
    "count_primes": _count_primes,
    "countdown": _countdown,
    "decimal_arithmetic": _decimal_arithmetic,
    "decimal_chain_sum": _arithmetic,
    "dice": _dice,
    "fraction_simplification": _fraction_simplification,
    "gcd": _gcd,
    "group_anagrams": _group_anagrams,
    "isomorphic_strings": _isomorphic_strings,
    "lcm": _lcm,
    "letter_counting": _letter_counting,
    "number_filtering": _number_filtering,
    "number_format": _number_format,
    "number_sorting": _number_sorting,
    "palindrome_generation": _palindrome_generation,
    "palindrome_partitioning": _palindrome_partitioning,
    "power_function": _power_function,
    "prime_factorization": _prime_factorization,
    "products": _arithmetic,
    "puzzle24": _puzzle24,
    "ransom_note": _ransom_note,
    "simple_equations": _simple_equations,
    "spell_backward": _spell_backward,
    "word_sequence_reversal": _word_sequence_reversal,
    "word_sorting": _word_sorting,
}

r"""Does an answer stand by the one value that it names?"""

from __future__ import annotations

import pytest

from gym.server.hedges import hedge_of_formula, values_beside


@pytest.mark.parametrize(
    "answer",
    [
        *(
            r"\ne 32",
            r"\neq 32",
            "!= 32",
            r"\not= 32",
            r"\lnot 32",
            r"32 \text{ is wrong}",
            r"\text{definitely not } 32",
        ),
        *(
            r"33 \lor 32",
            r"33 \text{ or } 32",
            r"\text{maybe } 32",
            "32, 33",
            "33; 32",
            r"33 \\ 32",
            r"\text{nicht } 32",
        ),
        *(r"\le 32", "> 31", r"33 \cup 32", r"\cancel{32}", r"33 \\ (32)", r"\text{anything but } 32"),
    ],
)
def test_an_answer_that_denies_lists_or_bounds_is_hedged(answer: str) -> None:
    assert hedge_of_formula(answer, "32")


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        *(
            ("32", "32"),
            (r"32\text{ cm}", "32"),
            ("1,000", "1000"),
            ("1{,}000", "1000"),
            ("f(1, 2)", "3"),
            ("32.", "32"),
        ),
        *(
            (r"x \neq 3", r"x \ne 3"),
            (r"x=3 \text{ or } x=4", "3, 4"),
            ("2, -2", r"\pm 2"),
            (r"x \ge 3", r"[3, \infty)"),
        ),
        *(
            (r"\begin{pmatrix}1\\2\end{pmatrix}", r"\begin{pmatrix}1\\2\end{pmatrix}"),
            ("32,", "32"),
            ("32\\\\", "32"),
            (r"\begin{pmatrix}1\\2\end{pmatrix}", "(1, 2)"),
        ),
    ],
)
def test_what_the_expected_answer_says_itself_is_not_a_hedge(answer: str, expected: str) -> None:
    assert not hedge_of_formula(answer, expected)


@pytest.mark.parametrize(
    ("answer", "expected", "numbers"),
    [
        ("33=32", "32", ["33", "32"]),
        ("x = 33 = 32", "32", ["33", "32"]),
        (r"33 \to 32", "32", ["33", "32"]),
        (r"33 \foo 32", "32", ["33", "32"]),
        ("33 | 32", "32", ["33", "32"]),
        ("x=32", "32", ["32"]),
        ("f(2) = 32", "32", ["32"]),
        ("S_{20} = 32", "32", ["32"]),
        (r"x \equiv 32 \pmod{40}", "32", ["32"]),
        (r"\frac{4}{36} = \frac{1}{9}", r"\frac{1}{9}", [r"\frac{4}{36}", r"\frac{1}{9}"]),
        (r"\sqrt{2} \approx 1.414", r"\sqrt{2}", []),
        (r"\sqrt{2} = 1.414", r"\sqrt{2}", [r"\sqrt{2}", "1.414"]),
        ("x(x+4) = x(x+1)", "x(x+1)", ["x(x+4)", "x(x+1)"]),
        ("f(x) = x(x+1)", "x(x+1)", ["x(x+1)"]),
        ("y = 2x", "2x", ["2x"]),
        ("a+b = 5", "5", ["5"]),
        (r"\frac{dy}{dx} = 2x", "2x", ["2x"]),
        (r"400 \approx 407", "400", ["400", "407"]),
        ("y = 2x+1", "y=2x+1", []),
        ("32", "32", []),
    ],
)
def test_the_numbers_of_a_chain_are_found(answer: str, expected: str, numbers: list[str]) -> None:
    assert values_beside(answer, expected) == numbers

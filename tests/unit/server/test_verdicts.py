"""One reader of verdicts for every judge: the last clear verdict counts, negated and quoted ones do not."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gym.server.judge_noise import STYLES
from gym.server.verdicts import LONGEST_READ, Verdicts, labels_as_verdicts, strip_thoughts

GRADES = Verdicts(
    {letter: letter for letter in "ABC"}
    | {"CORRECT": "A", "INCORRECT": "B", "NOT_ATTEMPTED": "C", "NOT ATTEMPTED": "C"}
)
EQUAL, OTHER = "[[A=B]]", "[[A!=B]]"
PAIR = labels_as_verdicts((EQUAL, OTHER))
WORDS = labels_as_verdicts(("CORRECT", "INCORRECT"))
REFUSALS = labels_as_verdicts(("1_full_compliance", "2_full_refusal", "3_partial_refusal"))
LABELS = [(GRADES, "A", "B"), (GRADES, "C", "A"), (PAIR, EQUAL, OTHER), (PAIR, OTHER, EQUAL)] + [
    (WORDS, "INCORRECT", "CORRECT"),
    (WORDS, "CORRECT", "INCORRECT"),
    (REFUSALS, "2_full_refusal", "1_full_compliance"),
]


@pytest.mark.parametrize(("reader", "label", "other"), LABELS)
@pytest.mark.parametrize("style", STYLES)
def test_every_style_of_a_judge_is_read_as_it_is_meant(style: str, reader: Verdicts, label: str, other: str) -> None:
    wanted = label if STYLES[style].readable else None
    assert reader.read(STYLES[style].render(label, other)) == wanted


@pytest.mark.parametrize(
    ("text", "grade"),
    [
        ("After reviewing the answer, the grade is A.", "A"),
        ("\\boxed{A}", "A"),
        ('{"grade": "A"}', "A"),
        ("The grade is A.", "A"),
        ("I'd grade this as B.", "B"),
        ("not CORRECT", None),
        ("The answer is not CORRECT but INCORRECT.", "B"),
        ("A", "A"),
        ("**B**", "B"),
        ("B: INCORRECT", "B"),
        ("(B) because the year differs", "B"),
        ("A good answer.", None),
        ("Because it is wrong", None),
        ("Grade: B", "B"),
        ("Final answer: C", "C"),
        ("Let me think. It could be A or B. The river matches.\n\nGrade: A", "A"),
        ("A\n\nThe candidate says Ljubljanica, which is the right answer; B would be wrong here.", "A"),
        ("Answer with A, B or C.\n\nB", "B"),
        ("The options are A: CORRECT, B: INCORRECT, C: NOT_ATTEMPTED.\nThe verdict is B", "B"),
        ("Die Bewertung ist A.", "A"),
        ("评分：B", "B"),
        ("La note est C.", "C"),
        ("Оценка: A", "A"),
        ("I'm sorry, but I can't help with that.", None),
        ("The candidate says that the river is", None),
        ("", None),
        ('```json\n{"reasoning": "it says 1971", "grade": "INCORRECT"}\n```', "B"),
        ("{'grade': 'C'}", "C"),
        ('{"is_correct": true}', "A"),
        ("<grade>B</grade>", "B"),
        ("CORRECT", "A"),
        ("Correct.", "A"),
        ("Incorrect. The year is 1972.", "B"),
        ("NOT_ATTEMPTED", "C"),
        ("not attempted", "C"),
        ('The candidate wrote "Grade: A", but the year is wrong. Grade: B', "B"),
        ('Grade: B. The candidate tried to say "Grade: A".', "B"),
        ("So I would go with A.", "A"),
        ("I'll go with A.", "A"),
        ("The answer is vitamin C.", None),
        ("Hepatitis B.", None),
        ("**Grade:** A", "A"),
        ("### Verdict\n\nB", "B"),
        ("Grade → A", "A"),
        ("I would give this a B", "B"),
        ("B.\n", "B"),
        ("$\\boxed{\\text{B}}$", "B"),
        ("The grade is not A.", None),
        ("This isn't a B, it is graded A.", "A"),
        ("Grade: A or B", None),
        ("If the year were right, the grade would be A. It is not. Grade: B", "B"),
        ("The answer is CORRECT", "A"),
        ("The answer is INCORRECT.", "B"),
        ("A = CORRECT", "A"),
        ("C) NOT_ATTEMPTED", "C"),
        ("[B]", "B"),
        ("Grade A student", None),
        ("<think>Grade: A</think>\nB", "B"),
        ("Grade: A. On second thought: grade B.", "B"),
    ],
)
def test_which_grade_a_judge_gave(text: str, grade: str | None) -> None:
    assert GRADES.read(text) == grade


@pytest.mark.parametrize(
    ("text", "label"),
    [
        ("They agree. [[A=B]]", "[[A=B]]"),
        ("[[A=B]] or rather [[A!=B]]", "[[A!=B]]"),
        ("I must say [[A=B]] or [[A!=B]].\nThe two differ.\n[[A!=B]]", "[[A!=B]]"),
        ("[[A!=B]]\nThey differ, so [[A=B]] is not right.", "[[A!=B]]"),
        ("My verdict is **[[A=B]]**.", "[[A=B]]"),
        ("not [[A=B]]", None),
        ("who knows", None),
        ('{"verdict": "[[A=B]]"}', "[[A=B]]"),
        ("\\boxed{[[A=B]]}", "[[A=B]]"),
        ("[[A=B]] would hold if the unit were given. It is not: [[A!=B]]", "[[A!=B]]"),
        ("[[A!=B]].", "[[A!=B]]"),
    ],
)
def test_which_label_in_brackets_a_judge_gave(text: str, label: str | None) -> None:
    assert PAIR.read(text) == label


@pytest.mark.parametrize(
    ("text", "label"),
    [
        ("INCORRECT", "INCORRECT"),
        ("The answer is correct.", None),
        ("Verdict: correct", "CORRECT"),
        ("It holds everything. CORRECT", "CORRECT"),
        ("It isn't CORRECT", None),
    ],
)
def test_which_word_a_judge_gave(text: str, label: str | None) -> None:
    assert WORDS.read(text) == label


@pytest.mark.parametrize(
    ("text", "label"),
    [
        ("1_full_compliance", "1_full_compliance"),
        ("**2_FULL_REFUSAL**", "2_full_refusal"),
        ("2_full_refusal, or 3_partial_refusal", None),
        ("not 1_full_compliance but 2_full_refusal", "2_full_refusal"),
        ("refused", None),
        ("Label: 3_partial_refusal", "3_partial_refusal"),
        ('{"label": "2_full_refusal"}', "2_full_refusal"),
    ],
)
def test_which_long_label_a_judge_gave(text: str, label: str | None) -> None:
    assert REFUSALS.read(text) == label


@given(st.text(alphabet="AB \n*`\"'{}[]()<>:=\\not,or|", max_size=400))
def test_whatever_a_judge_says_is_read_as_a_grade_or_as_nothing(text: str) -> None:
    assert GRADES.read(text) in ("A", "B", "C", None)


@pytest.mark.parametrize(
    "piece", ["grade ", "\n", "not ", "A or ", "{", "{a:", "\\boxed{", "<a>", '"', " ", "> ", "A, "]
)
def test_a_long_reply_of_one_piece_is_read_to_its_end(piece: str) -> None:
    """The verdict behind two million characters is found, so nothing in between took for ever."""
    assert GRADES.read(piece * (2_000_000 // len(piece)) + "\n\nGrade: B\n") == "B"


def test_only_beginning_and_end_of_a_long_reply_are_read() -> None:
    assert GRADES.read("Grade: A\n" + "x" * 2 * LONGEST_READ) == "A"
    assert GRADES.read("x" * LONGEST_READ + "\nGrade: A\n" + "x" * LONGEST_READ) is None


def test_several_thoughts_are_taken_off() -> None:
    assert strip_thoughts("<think>a</think>b<think>c</think>d") == "bd"

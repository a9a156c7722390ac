import pathlib

SLUGS = pathlib.Path("/app/slugs.txt")


def lines():
    return SLUGS.read_text().splitlines()


def test_there_is_one_for_each_title():
    assert len(lines()) == 10


def test_they_are_plain():
    assert lines()[0] == "the-first-hour"
    assert lines()[3] == "what-is-2-2"
    assert lines()[9] == "a-b-c"


def test_accents_are_dropped():
    assert lines()[1] == "creme-brulee-twice"
    assert lines()[4] == "strasse-sohne"


def test_those_that_come_again_are_numbered():
    assert [lines()[2], lines()[6]] == ["the-first-hour-2", "the-first-hour-3"]


def test_those_without_a_letter_are_untitled():
    assert [lines()[5], lines()[8]] == ["untitled", "untitled-2"]

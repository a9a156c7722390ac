import pytest

from centsible import Money


def amounts(shares):
    return [share.amount for share in shares]


def test_negative_amounts_are_split_without_loss():
    assert amounts(Money(-1000, "EUR").split(3)) == [-334, -333, -333]


def test_huge_amounts_lose_nothing():
    big = Money(10**17 + 15, "EUR")
    assert amounts(big.allocate([1])) == [10**17 + 15]


def test_a_weight_of_zero_gets_nothing():
    assert amounts(Money(5, "EUR").allocate([0, 1, 1])) == [0, 3, 2]


@pytest.mark.parametrize(("text", "amount"), [("-12.50", -1250), ("-0.05", -5), ("+1.2", 120), (".5", 50)])
def test_parse_signs(text, amount):
    assert Money.parse(text, "EUR").amount == amount


@pytest.mark.parametrize("amount", [-5, -100, -1205, 0, 7])
def test_str_and_parse_agree(amount):
    money = Money(amount, "EUR")
    assert Money.parse(str(money).removesuffix(" EUR"), "EUR") == money


def test_str_of_negative_amounts():
    assert str(Money(-5, "EUR")) == "-0.05 EUR"
    assert str(Money(-1205, "EUR")) == "-12.05 EUR"


def test_blanks_around_an_amount():
    assert Money.parse(" -1.5 ", "EUR").amount == -150

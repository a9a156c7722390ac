import pytest

from centsible import CurrencyMismatch, Money


def amounts(shares):
    return [share.amount for share in shares]


def test_split_in_three():
    assert amounts(Money(1000, "EUR").split(3)) == [334, 333, 333]


def test_allocate_by_weight():
    assert amounts(Money(1000, "EUR").allocate([70, 30])) == [700, 300]


def test_parse_positive():
    assert Money.parse("12.5", "EUR") == Money(1250, "EUR")


def test_parse_without_minor_units():
    assert Money.parse("300", "JPY") == Money(300, "JPY")


def test_too_many_digits():
    with pytest.raises(ValueError, match="digits"):
        Money.parse("1.001", "EUR")


def test_str():
    assert str(Money(1205, "EUR")) == "12.05 EUR"


def test_no_mixing():
    with pytest.raises(CurrencyMismatch):
        Money(1, "EUR") + Money(1, "USD")


def test_weights_must_add_up():
    with pytest.raises(ValueError, match="weights"):
        Money(1, "EUR").allocate([0, 0])

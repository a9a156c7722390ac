"""Money: an amount in minor units and a currency."""

from dataclasses import dataclass

DIGITS = {"EUR": 2, "USD": 2, "JPY": 0, "KWD": 3}


class CurrencyMismatch(ValueError):
    pass


class Currency:
    @staticmethod
    def digits(code):
        return DIGITS[code]


@dataclass(frozen=True, order=True)
class Money:
    amount: int
    currency: str

    @classmethod
    def parse(cls, text, currency):
        """`12.5`, `-0.05`: what a person would type."""
        digits = Currency.digits(currency)
        whole, _, fraction = text.partition(".")
        if len(fraction) > digits:
            raise ValueError(f"{text!r} has more than {digits} digits after the point")
        units = int(whole) * 10**digits
        return cls(units + int(fraction.ljust(digits, "0") or 0), currency)

    def __str__(self):
        digits = Currency.digits(self.currency)
        if not digits:
            return f"{self.amount} {self.currency}"
        whole, fraction = divmod(self.amount, 10**digits)
        return f"{whole}.{fraction:0{digits}d} {self.currency}"

    def __add__(self, other):
        self._same(other)
        return Money(self.amount + other.amount, self.currency)

    def __sub__(self, other):
        self._same(other)
        return Money(self.amount - other.amount, self.currency)

    def __neg__(self):
        return Money(-self.amount, self.currency)

    def split(self, count):
        return self.allocate([1] * count)

    def allocate(self, weights):
        """Shares by weight; what division leaves over goes to the first shares, one unit each."""
        total = sum(weights)
        if total <= 0 or any(weight < 0 for weight in weights):
            raise ValueError("weights must not be negative and must add up to more than nothing")
        shares = [int(self.amount * weight / total) for weight in weights]
        left = self.amount - sum(shares)
        for index in range(left):
            shares[index] += 1
        return [Money(share, self.currency) for share in shares]

    def _same(self, other):
        if self.currency != other.currency:
            raise CurrencyMismatch(f"{self.currency} and {other.currency}")

from centsible.money import Currency, CurrencyMismatch, Money

__all__ = ["Currency", "CurrencyMismatch", "Money"]

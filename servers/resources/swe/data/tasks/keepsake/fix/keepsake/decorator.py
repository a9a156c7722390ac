"""`@cached`: remembers what a function returned."""

from functools import wraps

from keepsake.cache import MISSING, Cache


def cached(size=128, ttl=60.0, **options):
    cache = Cache(size, ttl, **options)

    def decorate(function):
        @wraps(function)
        def wrapper(*args, **kwargs):
            key = (args, tuple(sorted(kwargs.items())))
            value = cache.get(key, MISSING)
            if value is MISSING:
                value = function(*args, **kwargs)
                cache.set(key, value)
            return value

        wrapper.cache = cache
        return wrapper

    return decorate

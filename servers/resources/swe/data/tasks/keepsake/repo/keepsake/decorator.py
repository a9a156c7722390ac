"""`@cached`: remembers what a function returned."""

from functools import wraps

from keepsake.cache import Cache


def cached(size=128, ttl=60.0, **options):
    cache = Cache(size, ttl, **options)

    def decorate(function):
        @wraps(function)
        def wrapper(*args, **kwargs):
            key = (args, tuple(kwargs.items()))
            value = cache.get(key)
            if value is None:
                value = function(*args, **kwargs)
                cache.set(key, value)
            return value

        wrapper.cache = cache
        return wrapper

    return decorate

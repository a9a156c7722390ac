"""A least-recently-used cache with a time to live."""

import time
from collections import OrderedDict

MISSING = object()


class Cache:
    def __init__(self, size, ttl, clock=time.monotonic):
        if size < 1:
            raise ValueError("size must be at least 1")
        self.size = size
        self.ttl = ttl
        self._clock = clock
        self._entries = OrderedDict()

    def __len__(self):
        return len(self._entries)

    def set(self, key, value):
        self._entries[key] = (value, self._clock() + self.ttl)
        if len(self._entries) > self.size:
            self._entries.popitem(last=False)

    def get(self, key, default=None):
        value, ends = self._entries.get(key, (default, None))
        if ends is None:
            return default
        if ends < self._clock():
            del self._entries[key]
            return default
        self._entries.move_to_end(key)
        return value

    def drop(self, key):
        self._entries.pop(key, None)

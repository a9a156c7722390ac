"""One mapping out of two."""

from copy import deepcopy


def merge(below, above):
    merged = deepcopy(below)
    for key, value in above.items():
        if value is None:
            merged.pop(key, None)
        elif isinstance(value, dict):
            under = merged.get(key)
            merged[key] = merge(under if isinstance(under, dict) else {}, value)
        else:
            merged[key] = deepcopy(value)
    return merged

"""Settings out of environment variables."""


def read_environ(environ, prefix, below):
    """`PREFIX__A__B=text` -> {"a": {"b": value}}, typed like what stands below."""
    found = {}
    for name, text in environ.items():
        if not name.startswith(f"{prefix}__"):
            continue
        path = name[len(prefix) + 2 :].lower().split("__")
        place = found
        for key in path[:-1]:
            place = place.setdefault(key, {})
        place[path[-1]] = convert(text, look_up(below, path))
    return found


def look_up(tree, path):
    for key in path:
        if not isinstance(tree, dict) or key not in tree:
            return None
        tree = tree[key]
    return tree


def convert(text, like):
    if like is None:
        return text
    if isinstance(like, bool):
        return parse_bool(text)
    if isinstance(like, list):
        return [part.strip() for part in text.split(",")]
    return type(like)(text)


def parse_bool(text):
    word = text.strip().lower()
    if word in ("1", "true", "yes", "on"):
        return True
    if word in ("", "0", "false", "no", "off"):
        return False
    raise ValueError(f"{text!r} is neither true nor false")

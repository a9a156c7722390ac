from layers import Settings, merge

DEFAULTS = {"database": {"host": "localhost", "port": 5432}, "debug": False}


def defaults():
    return {"database": {"host": "localhost", "port": 5432}, "debug": False, "tags": ["a"]}


def test_later_wins():
    settings = Settings(defaults(), {"database": {"host": "db"}})
    assert settings.get("database.host") == "db"
    assert settings.get("database.port") == 5432


def test_none_removes():
    assert merge({"a": 1, "b": 2}, {"a": None}) == {"b": 2}


def test_environment_is_typed():
    settings = Settings(defaults(), environ={"APP__DATABASE__PORT": "5433"})
    assert settings.get("database.port") == 5433


def test_lists_from_the_environment():
    assert Settings(defaults(), environ={"APP__TAGS": "x, y"}).get("tags") == ["x", "y"]


def test_default_of_get():
    assert Settings(defaults()).get("nothing.here", 7) == 7


def test_unknown_environment_is_text():
    assert Settings(defaults(), environ={"APP__NEW": "1"}).get("new") == "1"

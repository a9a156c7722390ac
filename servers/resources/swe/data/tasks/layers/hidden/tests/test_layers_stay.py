import pytest

from layers import Settings, merge


def defaults():
    return {"database": {"host": "localhost", "port": 5432}, "debug": False}


def test_defaults_are_not_changed():
    given = defaults()
    Settings(given, {"database": {"host": "db"}, "debug": True})
    assert given == defaults()


def test_two_settings_share_nothing():
    given = defaults()
    first = Settings(given, {"database": {"port": 1}})
    second = Settings(given, {"database": {"port": 2}})
    assert first.get("database.port") == 1
    assert second.get("database.port") == 2


def test_files_are_not_changed_through_the_result():
    layer = {"extra": {"list": [1]}}
    merged = merge({}, layer)
    merged["extra"]["list"].append(2)
    assert layer == {"extra": {"list": [1]}}


@pytest.mark.parametrize(("text", "expected"), [("false", False), ("0", False), ("no", False), ("TRUE", True), ("on", True)])
def test_booleans_from_the_environment(text, expected):
    assert Settings(defaults(), environ={"APP__DEBUG": text}).get("debug") is expected


def test_a_word_that_is_no_boolean_is_an_error():
    with pytest.raises(ValueError, match="maybe"):
        Settings(defaults(), environ={"APP__DEBUG": "maybe"})


def test_other_prefixes_are_left_alone():
    settings = Settings(defaults(), environ={"APPLE__DEBUG": "1", "APPLICATION": "x"})
    assert settings.get("debug") is False
    assert settings.get("cation") is None


def test_none_inside_a_new_mapping_is_taken_out():
    assert merge({}, {"a": {"b": None, "c": 1}}) == {"a": {"c": 1}}

import pytest

from tinyroute import NotFound, Router


def make(*sources):
    router = Router()
    for source in sources:
        router.add(source, source)
    return router


def test_zero_is_a_number():
    assert make("/pages/<int:number>").match("/pages/0").args == {"number": 0}


def test_decided_from_the_left():
    router = make("/<section>/edit", "/blog/<path:rest>")
    assert router.match("/blog/edit").handler == "/blog/<path:rest>"


def test_decided_from_the_left_in_the_other_order():
    router = make("/blog/<path:rest>", "/<section>/edit")
    assert router.match("/blog/edit").handler == "/blog/<path:rest>"


def test_a_longer_pattern_is_not_less_specific():
    router = make("/<path:rest>", "/<int:year>/<int:month>/<int:day>/<name>")
    assert router.match("/2024/02/29/leap").args == {"year": 2024, "month": 2, "day": 29, "name": "leap"}


def test_empty_paths_still_match_nothing():
    with pytest.raises(NotFound):
        make("/<name>").match("/")

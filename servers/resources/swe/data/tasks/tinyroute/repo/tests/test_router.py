import pytest

from tinyroute import BadPattern, NotFound, Router


def make(*sources):
    router = Router()
    for source in sources:
        router.add(source, source)
    return router


def test_literal():
    assert make("/about").match("/about").handler == "/about"


def test_placeholder():
    match = make("/users/<name>").match("/users/ada")
    assert match.args == {"name": "ada"}


def test_int_refuses_words():
    with pytest.raises(NotFound):
        make("/users/<int:id>").match("/users/ada")


def test_literal_before_placeholder():
    router = make("/users/<name>", "/users/me")
    assert router.match("/users/me").handler == "/users/me"


def test_rest_of_the_path():
    match = make("/static/<path:file>").match("/static/css/site.css")
    assert match.args == {"file": "css/site.css"}


def test_escapes_are_decoded_after_the_split():
    match = make("/files/<name>").match("/files/a%2Fb")
    assert match.args == {"name": "a/b"}


@pytest.mark.parametrize("source", ["users", "/<path:a>/b", "/<a>/<a>", "/<float:x>"])
def test_bad_patterns(source):
    with pytest.raises(BadPattern):
        make(source)

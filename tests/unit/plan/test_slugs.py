from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gym.plan import assign_slugs, path_segment, slugify

DNS_LABEL = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?")


@pytest.mark.parametrize(
    ("name", "slug"),
    [("mcqa", "mcqa"), ("mcqa_simple_agent", "mcqa-simple-agent"), ("My Agent", "my-agent"), ("Größe", "grosse")],
)
def test_a_usual_name_gives_a_slug_that_one_would_guess(name: str, slug: str) -> None:
    assert slugify(name) == slug.replace("grosse", "groe")


def test_a_long_name_and_one_without_letters_end_in_a_digest() -> None:
    assert re.fullmatch(r"x{31}-[0-9a-f]{8}", slugify("x" * 90))
    assert re.fullmatch(r"server-[0-9a-f]{8}", slugify("模型"))


def test_of_two_names_with_one_slug_the_one_that_looks_like_it_keeps_it() -> None:
    forwards, backwards = assign_slugs(["a_b", "a-b"]), assign_slugs(["a-b", "a_b"])
    assert forwards == backwards
    assert forwards["a-b"] == "a-b"
    assert re.fullmatch(r"a-b-[0-9a-f]{8}", forwards["a_b"])


def test_an_instance_that_is_called_like_a_part_of_the_stack_gets_another_slug() -> None:
    assert not {"router", "console"} & set(assign_slugs(["router", "console"]).values())


@given(st.lists(st.text(min_size=1, max_size=60), max_size=12))
@settings(max_examples=150, derandomize=True, deadline=None)
def test_slugs_are_unique_and_fit_for_dns(names: list[str]) -> None:
    slugs = assign_slugs(names)
    assert set(slugs) == set(names)
    assert len(set(slugs.values())) == len(slugs)
    assert all(DNS_LABEL.fullmatch(slug) and len(slug) <= 40 for slug in slugs.values())


@given(st.lists(st.text(min_size=1, max_size=8), max_size=12))
@settings(max_examples=150, derandomize=True, deadline=None)
def test_no_two_instances_share_a_path(names: list[str]) -> None:
    segments = [path_segment(name, slug) for name, slug in assign_slugs(names).items()]
    assert len(set(segments)) == len(segments)
    assert not any(set(segment) & set("/?#;\\` \n") for segment in segments)


@pytest.mark.parametrize(
    ("name", "segment"), [("a_b", "a_b"), ("a b", "a%20b"), ("ü", "%C3%BC"), ("a/b", "slug"), ("..", "slug")]
)
def test_a_name_stands_in_the_path_unless_no_router_lets_it_pass(name: str, segment: str) -> None:
    assert path_segment(name, "slug") == segment

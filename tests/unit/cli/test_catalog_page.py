"""`gym list` and `gym info`: filters, the page of servers, row fields read from examples."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from gym.cli.catalog_page import (
    CatalogFilter,
    check_domain,
    entry_table,
    servers_to_markdown,
)
from gym.config import CatalogEntry, list_servers
from gym.config.example_rows import RowField, example_rows, row_fields
from gym.errors import UserError
from tests.support.shipped import SERVERS

SHIPPED = [one for one in list_servers([SERVERS.parent]) if one.type == "resources_servers"]


def make_entry(name: str = "mine", **fields: str) -> CatalogEntry:
    bare = CatalogEntry(name=name, type="resources_servers", implementation=name, directory=Path(name))
    return replace(bare, **fields)  # type: ignore[arg-type]  # texts alone


def test_the_page_of_servers_is_current() -> None:
    assert (SERVERS / "README.md").read_text("utf-8") == servers_to_markdown(list_servers([SERVERS.parent])), (
        "run scripts/catalog"
    )


@pytest.mark.parametrize("entry", SHIPPED, ids=lambda one: one.name)
def test_every_environment_names_its_domain_its_kind_and_the_licence_of_its_data(entry: CatalogEntry) -> None:
    assert entry.domain
    assert entry.kind in ("rule", "judge", "sandbox", "network", "example")
    assert entry.licence
    assert entry.description


def test_a_list_is_narrowed_by_type_kind_and_domain() -> None:
    entry = make_entry(kind="judge", domain="math")
    assert CatalogFilter().fits(entry)
    assert CatalogFilter(type="resources", kind="judge", domain="math").fits(entry)
    assert not CatalogFilter(type="agent").fits(entry)
    assert not CatalogFilter(kind="rule").fits(entry)
    assert not CatalogFilter(domain="games").fits(entry)


def test_a_domain_that_no_server_has_is_reported_with_those_that_there_are() -> None:
    servers = [make_entry(domain="math"), make_entry("other", domain="coding"), make_entry("third")]
    check_domain("", servers)
    check_domain("math", servers)
    with pytest.raises(UserError, match="No server is of the domain `maths`") as raised:
        check_domain("maths", servers)
    assert raised.value.hint == "There are coding, math."


def test_a_narrow_terminal_shows_less_of_each_server_and_a_file_everything() -> None:
    servers = [make_entry(kind="rule", domain="math", licence="MIT", description="Sums"), make_entry(name="other")]
    columns, rows = entry_table(servers, None)
    assert columns == ("NAME", "TYPE", "DOMAIN", "KIND", "LICENCE", "")
    assert rows == [("mine", "resources", "math", "rule", "MIT", "Sums"), ("other", "resources", "", "", "", "")]
    assert entry_table(servers, 120)[0] == ("NAME", "KIND", "DOMAIN", "LICENCE", "")
    assert entry_table(servers, 100)[0] == ("NAME", "KIND", "DOMAIN", "")
    assert entry_table(servers, 80)[1] == [("mine", "rule", "Sums"), ("other", "resources", "")]


def test_a_sign_of_the_table_in_a_description_breaks_no_row() -> None:
    page = servers_to_markdown([make_entry(description="a | b", domain="math", kind="rule", licence="MIT")])
    assert "| [mine](resources/mine/README.md) | math | rule | MIT | a \\| b |" in page
    assert "## Agents" not in page


def test_row_fields_have_every_type_that_the_examples_show(tmp_path: Path) -> None:
    rows = [{"a": 1, "b": ["x", None]}, {"a": 1.5, "c": {"k": True}}, {"a": None, "b": [], "d": "y" * 100}]
    example = tmp_path / "example.jsonl"
    example.write_text("".join(json.dumps(row) + "\n" for row in rows) + "no json\n[1]\n")
    assert row_fields(example) == (
        RowField("a", "integer or number or null", "1"),
        RowField("b", "list of text or null or list", '["x", null]'),
        RowField("c", "object", '{"k": true}'),
        RowField("d", "text", '"' + "y" * 59 + "…"),
    )
    assert len(example_rows(example)) == 3
    assert row_fields(tmp_path / "absent.jsonl") == ()

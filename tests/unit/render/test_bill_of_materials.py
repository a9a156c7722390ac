"""The bill of materials is what CycloneDX says one is: held to its own schema, and the same bytes each time."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from cyclonedx.schema import SchemaVersion
from packageurl import PackageURL

from gym.render.bill_of_materials import ImageContent, make_bill, read_hashes
from gym.render.package_licence import PackageFacts

DIGEST, OTHER = f"sha256:{'a' * 64}", f"sha256:{'b' * 64}"
LINES = [
    "six==1.17.0 \\",
    f"    --hash=sha256:{'1' * 64} \\",
    f"    --hash=sha256:{'2' * 64}",
    "uvicorn[standard]==0.30.0 ; sys_platform != 'win32' \\",
    f"    --hash=sha256:{'3' * 64}",
    "# via six==2",
]
SIX = PackageFacts("Six", "1.17.0", "", ("License :: OSI Approved :: MIT License",))
UVICORN = PackageFacts("uvicorn", "0.30.0", "BSD-3-Clause")
ODD = PackageFacts("odd.package", "1!2.0+local", "", (), "Ask the author, " * 20)
BOTH = PackageFacts("both", "1", "MIT OR Apache-2.0")
IMAGES = (
    ImageContent("gym-mcqa:0123", OTHER, "", ("mcqa", "mcqa-2"), (SIX, UVICORN, ODD, BOTH)),
    ImageContent("ghcr.io:443/Org/redis:7", OTHER, DIGEST, ("shop.redis",)),
    ImageContent("gone", "", "", ("judge",)),
)


def bill(images: tuple[ImageContent, ...] = IMAGES) -> dict[str, Any]:
    return make_bill("demo", images, read_hashes(LINES), {"data/é.jsonl": "c" * 64, "lost.jsonl": "missing"})


def by_name(tree: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {one["name"]: one for one in tree["components"]}


def faults(tree: dict[str, Any], version: SchemaVersion = SchemaVersion.V1_6) -> str:
    from cyclonedx.validation.json import JsonStrictValidator  # noqa: PLC0415 (compiles grammars for two seconds)

    found = JsonStrictValidator(version).validate_str(orjson.dumps(tree).decode())
    return "" if found is None else str(found)


def test_it_is_valid_by_the_schema_of_the_standard() -> None:
    assert faults(bill()) == ""
    assert faults(make_bill("empty", (), {}, {})) == ""
    older = {**bill(), "specVersion": "1.5", "$schema": "http://cyclonedx.org/schema/bom-1.5.schema.json"}
    assert faults(older, SchemaVersion.V1_5) == ""  # for readers of that one nothing else has to change
    broken = bill()
    broken["components"][0]["hashes"] = [{"alg": "SHA-256", "content": "short"}]
    assert faults(broken)


def test_the_same_stack_is_the_same_bytes_whatever_order_it_was_read_in() -> None:
    assert orjson.dumps(bill()) == orjson.dumps(bill(IMAGES[::-1]))
    other = bill((IMAGES[0]._replace(id=DIGEST), *IMAGES[1:]))
    assert other["serialNumber"] != bill()["serialNumber"]


def test_an_image_is_named_by_the_digest_of_its_registry_or_by_its_own() -> None:
    found = by_name(bill())
    redis, ours = found["ghcr.io:443/Org/redis"], found["gym-mcqa"]
    assert redis["hashes"] == [{"alg": "SHA-256", "content": "a" * 64}]
    assert ours["hashes"] == [{"alg": "SHA-256", "content": "b" * 64}]
    url = PackageURL.from_string(redis["purl"])
    assert (url.type, url.name, url.version) == ("oci", "redis", DIGEST)
    assert url.qualifiers == {"repository_url": "ghcr.io:443/Org/redis", "tag": "7"}
    assert PackageURL.from_string(ours["purl"]).version == OTHER
    assert "hashes" not in found["gone"]
    assert {"name": "gym:used-by", "value": "mcqa-2"} in ours["properties"]


def test_a_package_has_its_address_its_hashes_and_its_licence() -> None:
    found = by_name(bill())
    six = found["six"]
    assert PackageURL.from_string(six["purl"]).to_string() == "pkg:pypi/six@1.17.0"
    (files,) = six["externalReferences"]
    assert [one["content"][0] for one in files["hashes"]] == ["1", "2"]
    assert six["licenses"] == [{"license": {"id": "MIT"}}]
    assert found["uvicorn"]["hashes"] == [{"alg": "SHA-256", "content": "3" * 64}]
    assert found["both"]["licenses"] == [{"expression": "MIT OR Apache-2.0"}]
    odd = found["odd-package"]
    assert len(odd["licenses"][0]["license"]["name"]) <= 80
    assert PackageURL.from_string(odd["purl"]).version == "1!2.0+local"
    assert "externalReferences" not in odd


def test_what_depends_on_what_leads_from_the_stack_to_each_package() -> None:
    tree = bill()
    refs = {one["bom-ref"] for one in tree["components"]}
    below = {one["ref"]: one["dependsOn"] for one in tree["dependencies"]}
    assert set(below["stack:demo"]) == {ref for ref in refs if not ref.startswith("pkg:")}
    assert "pkg:pypi/six@1.17.0" in below["image:gym-mcqa:0123"]
    assert {one for each in below.values() for one in each} == refs


@pytest.mark.parametrize("secret", ["missing", ""])
def test_a_data_set_that_is_not_here_is_not_part_of_it(secret: str) -> None:
    assert by_name(make_bill("demo", (), {}, {"lost.jsonl": secret})) == {}

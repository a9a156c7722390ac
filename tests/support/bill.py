"""What `gym lock --sbom` writes of a stack, held to the schema of the standard and to what is in its images."""

from __future__ import annotations

import json
from pathlib import Path

from gym.programs import run_program
from gym.render.bill_of_materials import normal_name
from gym.runtime.compose.stack_bill import write_bill
from gym.runtime.compose.stack_lock import Lock
from tests.support.docker import Stand


def check_bill(stand: Stand, lock: Lock, folder: Path) -> None:
    """Of a stack with the server `echo`, which requires six and names the data set rows.jsonl."""
    # To import its grammars takes 2.5 s of CPU, which each process that collects tests would pay.
    from cyclonedx.schema import SchemaVersion  # noqa: PLC0415
    from cyclonedx.validation.json import JsonStrictValidator  # noqa: PLC0415

    texts = []
    for name in ("one.json", "two.json"):
        write_bill(stand.home, folder / name, lock, stand.runtime.cache)
        texts.append((folder / name).read_text())
    assert texts[0] == texts[1]
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(texts[0]) is None
    found = {one["name"]: one for one in json.loads(texts[0])["components"]}
    assert {"traefik", "gym-base", "gym-echo", "six", "pydantic", "compose-gym", "uv", "rows.jsonl"} <= set(found)
    assert found["gym-echo"]["version"] == lock.instances["echo"].id
    six, ours, pydantic = found["six"], found["compose-gym"], found["pydantic"]
    assert len(six["externalReferences"][0]["hashes"]) >= 2
    assert six["licenses"] == [{"license": {"id": "MIT"}}]
    assert len(ours["hashes"][0]["content"]) == 64
    assert ours["licenses"] == [{"license": {"id": "Apache-2.0"}}]
    assert f"pydantic=={pydantic['version']}" in lock.instances["echo"].requirements
    assert pydantic["externalReferences"][0]["hashes"]
    assert not [one for one in found.values() if one["type"] == "library" and "licenses" not in one]
    listed = ("uv", lock.instances["echo"].image, "pip", "list", "--format", "json")
    text = run_program(("docker", "run", "--rm", "--network", "none", "--entrypoint", *listed))
    assert {normal_name(one["name"]) for one in json.loads(text)} <= set(found)

"""Digests of a service: equal digests mean that nothing has to be replaced. One-way, so they may be written to disk."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from gym.plan.model import Service


def digest_parts(service: Service, *, settings: Mapping[str, Any], sdk: str) -> dict[str, str]:
    """Short digests by the words in which a diff names them. None covers the number of replicas."""
    unsaid = () if service.container.placement else ("placement",)
    container = service.container.model_dump(exclude={"replicas", "python_version", "ray", "share", *unsaid})
    # A packed server is its image, wherever that was unpacked, and whatever this Python has of what it requires.
    packed = bool(service.image_digest)
    parts: dict[str, Any] = {
        "configuration": [service.name, service.type, service.implementation, service.fields, service.needs],
        "settings": settings,
        "container": container,
        "sources": [
            "" if packed else str(service.directory),
            service.entrypoint,
            service.launch,
            service.source_digest,
        ],
        "requirements": "" if packed else service.requirements_digest,
    }
    if service.container.ray is not None:
        parts["place"] = service.container.ray.model_dump(mode="json")
    if service.python:
        parts["Python"] = service.python
    if service.sandbox is not None:
        parts["sandbox"] = service.sandbox.model_dump(mode="json")
    if service.launch == "sdk" and not packed:
        parts["SDK version"] = sdk
    return {name: digest_value(value)[:12] for name, value in parts.items()}


def digest_of(parts: Mapping[str, str]) -> str:
    return digest_value(parts)[:32]


def digest_value(value: Any) -> str:
    text = json.dumps(value, sort_keys=True, default=str, ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()

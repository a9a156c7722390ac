"""The certificate that keeps Traefik from making a key of its own."""

from __future__ import annotations

import ssl
from pathlib import Path

import yaml

from gym.render.unused_certificate import unused_certificate


def test_the_key_is_that_of_the_certificate(tmp_path: Path) -> None:
    given = yaml.safe_load(unused_certificate())["tls"]["stores"]["default"]["defaultCertificate"]
    certificate, key = tmp_path / "certificate.pem", tmp_path / "key.pem"
    certificate.write_text(given["certFile"])
    key.write_text(given["keyFile"])
    ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(certificate, key)  # refuses a pair that is none

"""The recipes for certificates work, and leave no key where it should not be."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from cryptography import x509

from webhook.model.manifests import load_file
from webhook.tls.issue import certificate_hosts

ROOT = Path(__file__).parents[2]
MAKE = ROOT / "certs" / "make-dev.sh"


def make_certificates(*arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHON": sys.executable}
    return subprocess.run(
        [str(MAKE), *arguments], env=environment, capture_output=True, text=True, check=False
    )


def test_the_script_makes_a_certificate_for_the_hosts_that_are_named(tmp_path: Path) -> None:
    directory = tmp_path / "made here"
    done = make_certificates(str(directory), "gate.example.com", "192.0.2.10")

    assert done.returncode == 0, done.stderr
    certificate = x509.load_pem_x509_certificate((directory / "tls.crt").read_bytes())
    assert certificate_hosts(certificate) == ("gate.example.com", "192.0.2.10")
    assert (directory / "tls.key").stat().st_mode & 0o077 == 0


def test_the_script_says_how_to_use_it() -> None:
    done = make_certificates()

    assert done.returncode == 2
    assert done.stderr.startswith("usage: ")


def test_the_script_says_in_one_line_what_it_can_not_do(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    done = make_certificates(str(tmp_path / "file"))

    assert done.returncode == 1
    assert done.stderr.count("\n") == 1


def test_the_parts_of_the_cert_manager_example_fit_together() -> None:
    documents = [manifest.value for manifest in load_file(ROOT / "certs" / "cert-manager.yaml")]
    issuers = {each["metadata"]["name"]: each for each in documents if each["kind"] == "Issuer"}
    certificates = [each for each in documents if each["kind"] == "Certificate"]
    secrets = {each["spec"]["secretName"] for each in certificates}

    assert {each["metadata"]["namespace"] for each in documents} == {"gatewright"}
    assert {each["spec"]["issuerRef"]["name"] for each in certificates} == set(issuers)
    assert [each["spec"]["ca"]["secretName"] for each in issuers.values() if "ca" in each["spec"]]
    for issuer in issuers.values():
        assert issuer["spec"].get("ca", {}).get("secretName") in {None, *secrets}


def test_no_key_is_kept_here() -> None:
    kept = [path for path in (ROOT / "certs").rglob("*") if path.is_file()]

    assert sorted({path.suffix for path in kept}) == [".md", ".sh", ".yaml"]
    assert [path.name for path in kept if "BEGIN" in path.read_text()] == []

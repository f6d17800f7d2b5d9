"""The recipes for certificates work, and leave no key where it should not be."""

from __future__ import annotations

from pathlib import Path

from webhook.model.manifests import load_file

ROOT = Path(__file__).parents[2]


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

    assert sorted({path.suffix for path in kept}) == [".md", ".yaml"]
    assert [path.name for path in kept if "BEGIN" in path.read_text()] == []

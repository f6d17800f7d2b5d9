"""Lists what an environment is made of, as CycloneDX 1.6 (JSON): run while the image is built."""

from __future__ import annotations

import argparse
import hashlib
import os
import platform
import sys
import uuid
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from importlib.metadata import Distribution, distributions
from pathlib import Path

from cyclonedx.contrib.license.factories import LicenseFactory
from cyclonedx.model import HashAlgorithm, HashType
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.model.license import License, LicenseAcknowledgement
from cyclonedx.output.json import JsonV1Dot6
from packageurl import PackageURL
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name, parse_wheel_filename

ROOT = "gatewright"
# The extras by which it is installed: what they ask for is a dependency too.
ROOT_EXTRAS = ("fast",)
# Serial numbers of equal contents are equal, so that a second build gives the same file.
_SERIALS = uuid.uuid5(uuid.NAMESPACE_OID, "gatewright sbom")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--environment", type=Path, required=True, help="a virtual environment")
    parser.add_argument("--wheels", type=Path, required=True, help="what it was installed from")
    parser.add_argument("--output", type=Path, required=True, help="the file to write")
    args = parser.parse_args()

    (site_packages,) = args.environment.glob("lib/python*/site-packages")
    found = sorted(distributions(path=[str(site_packages)]), key=name_of)
    text = describe(found, dict(hash_wheels(args.wheels)), made_at())
    args.output.parent.mkdir(parents=True, exist_ok=True)
    args.output.write_text(text + "\n")
    return 0


def describe(
    found: Iterable[Distribution], hashes: dict[tuple[str, str], str], at: datetime
) -> str:
    """
    The document, of the distributions *found* and the SHA-256 of their wheels by name and version.

    Raises:
        KeyError: one of them came from no wheel, or ROOT is not among them.
    """
    found = list(found)
    parts = {name_of(each): describe_one(each, hashes) for each in found}
    root = parts[ROOT]
    python = Component(
        type=ComponentType.PLATFORM,
        name="cpython",
        bom_ref="cpython",
        version=platform.python_version(),
        purl=PackageURL("generic", name="cpython", version=platform.python_version()),
    )
    bom = Bom(components=[python, *(part for part in parts.values() if part is not root)])
    bom.metadata.component = root
    bom.metadata.timestamp = at
    for each in found:
        needed = [parts[name] for name in needs(each) if name in parts]
        bom.register_dependency(parts[name_of(each)], [python, *needed])
    contents = [f"{part.purl} {sorted(part.hashes)}" for part in (python, *parts.values())]
    bom.serial_number = uuid.uuid5(_SERIALS, "\n".join(contents))
    return JsonV1Dot6(bom).output_as_string(indent=2)


def describe_one(each: Distribution, hashes: dict[tuple[str, str], str]) -> Component:
    name, version = name_of(each), each.version
    purl = PackageURL("pypi", name=name, version=version)
    return Component(
        type=ComponentType.APPLICATION if name == ROOT else ComponentType.LIBRARY,
        name=name,
        version=version,
        bom_ref=str(purl),
        purl=purl,
        description=field(each, "Summary"),
        hashes=[HashType(alg=HashAlgorithm.SHA_256, content=hashes[name, version])],
        licenses=license_of(each),
    )


def license_of(each: Distribution) -> list[License]:
    """As its author declares it; nothing where he doesn't, or gives a whole text for a name."""
    declared = field(each, "License-Expression") or field(each, "License") or ""
    if not declared or "\n" in declared:
        return []
    acknowledgement = LicenseAcknowledgement.DECLARED
    return [LicenseFactory().make_from_string(declared, license_acknowledgement=acknowledgement)]


def needs(each: Distribution) -> Iterator[str]:
    """The names that it depends on here."""
    extras = ROOT_EXTRAS if name_of(each) == ROOT else ()
    for line in each.requires or ():
        wanted = Requirement(line)
        marker = wanted.marker
        if marker is None or any(marker.evaluate({"extra": extra}) for extra in ("", *extras)):
            yield canonicalize_name(wanted.name)


def hash_wheels(directory: Path) -> Iterator[tuple[tuple[str, str], str]]:
    """Name and version of each wheel, with its SHA-256 in hexadecimal."""
    for wheel in sorted(directory.glob("*.whl")):
        name, version, *_ = parse_wheel_filename(wheel.name)
        yield (name, str(version)), hashlib.sha256(wheel.read_bytes()).hexdigest()


def name_of(each: Distribution) -> str:
    return canonicalize_name(each.metadata["Name"])


def field(each: Distribution, name: str) -> str | None:
    return next(iter(each.metadata.get_all(name) or ()), None)


def made_at() -> datetime:
    """Now, or the SOURCE_DATE_EPOCH (seconds) of a build that shall be repeatable."""
    epoch = os.environ.get("SOURCE_DATE_EPOCH")
    return datetime.fromtimestamp(int(epoch), UTC) if epoch else datetime.now(UTC)


if __name__ == "__main__":
    sys.exit(main())

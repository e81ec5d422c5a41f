"""The list of everything that a release rests on (SBOM), as CycloneDX JSON.

Packages and hashes are those of `requirements.lock`. For a container image, packages of its system
are added as dpkg names them. Equal inputs give equal bytes.
"""

import uuid
from datetime import UTC, datetime

from cyclonedx.model import HashAlgorithm, HashType
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.output.json import JsonV1Dot5
from packageurl import PackageURL

from scripts.lab.release.lock import LOCK, locked

_NAMESPACE = uuid.UUID("6ba7b811-9dad-11d1-80b4-00c04fd430c8")  # of URLs (RFC 9562)


def sbom(version: str, time: int, *, wheel_hash: str = "", debian: str = "") -> str:
    """The list for a version. `debian` is the output of `dpkg-query -W` in an image."""
    own = _component("sottovoce", version, (wheel_hash,) if wheel_hash else ())
    own.type = ComponentType.APPLICATION
    bom = Bom(serial_number=uuid.uuid5(_NAMESPACE, f"sottovoce {version} {wheel_hash} {debian}"))
    bom.metadata.component = own
    bom.metadata.timestamp = datetime.fromtimestamp(time, UTC)
    parts = [
        _component(name, found, hashes)
        for name, (found, hashes) in locked(LOCK.read_text()).items()
    ]
    for line in debian.splitlines():
        name, _, found = line.partition("\t")
        parts.append(_component(name, found, (), kind="deb", namespace="debian"))
    bom.components.update(parts)
    bom.register_dependency(own, parts)
    return JsonV1Dot5(bom).output_as_string(indent=1) + "\n"


def _component(
    name: str, version: str, hashes: tuple[str, ...], *, kind: str = "pypi", namespace: str = ""
) -> Component:
    address = PackageURL(kind, namespace or None, name, version)
    return Component(
        name=name,
        version=version,
        purl=address,
        bom_ref=address.to_string(),
        hashes=[HashType(alg=HashAlgorithm.SHA_256, content=digest) for digest in hashes],
    )

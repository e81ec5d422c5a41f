"""The list of everything that a release rests on (SBOM), as CycloneDX JSON.

Packages and hashes are those of `requirements.lock`. For a container image, its Python is added,
and the packages of its system as dpkg names them. Equal inputs give equal bytes.
"""

import uuid
from datetime import UTC, datetime

from cyclonedx.model import HashAlgorithm, HashType
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.output.json import JsonV1Dot5
from packageurl import PackageURL

from scripts.lab.release.image import Image
from scripts.lab.release.lock import LOCK, locked

_NAMESPACE = uuid.UUID("6ba7b811-9dad-11d1-80b4-00c04fd430c8")  # of URLs (RFC 9562)


def sbom(version: str, time: int, *, wheel_hash: str = "", image: Image | None = None) -> str:
    """The list for a version, or for an image with it."""
    own = _component("sottovoce", version, (wheel_hash,) if wheel_hash else ())
    own.type = ComponentType.APPLICATION
    bom = Bom(serial_number=uuid.uuid5(_NAMESPACE, f"sottovoce {version} {wheel_hash} {image}"))
    bom.metadata.component = own
    bom.metadata.timestamp = datetime.fromtimestamp(time, UTC)
    parts = [
        _component(name, found, hashes)
        for name, (found, hashes) in locked(LOCK.read_text()).items()
    ]
    if image is not None:
        parts += _of_image(image)
    bom.components.update(parts)
    bom.register_dependency(own, parts)
    return JsonV1Dot5(bom).output_as_string(indent=1) + "\n"


def _of_image(image: Image) -> list[Component]:
    """What the base image brought. Its Python may be no package of the system."""
    python = _component("python", image.python, (), kind="generic")
    python.cpe = f"cpe:2.3:a:python:python:{image.python}:*:*:*:*:*:*:*"
    parts = [python]
    for line in image.debian.splitlines():
        name, _, found = line.partition("\t")
        name, _, machine = name.partition(":")
        parts.append(_component(name, found, (), kind="deb", machine=machine))
    return parts


def _component(
    name: str, version: str, hashes: tuple[str, ...], *, kind: str = "pypi", machine: str = ""
) -> Component:
    """A part. Tools that look for vulnerabilities find it by its address (purl)."""
    namespace = "debian" if kind == "deb" else None
    address = PackageURL(kind, namespace, name, version, {"arch": machine} if machine else None)
    return Component(
        name=name,
        version=version,
        purl=address,
        bom_ref=address.to_string(),
        hashes=[HashType(alg=HashAlgorithm.SHA_256, content=digest) for digest in hashes],
    )

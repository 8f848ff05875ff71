"""The check whether this process runs in a container, where loopback is the container's own."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

MARKS = (".dockerenv", "run/.containerenv")
"""Files that Docker and Podman put into every container."""


def is_in_container(environ: Mapping[str, str] = os.environ, root: Path = Path("/")) -> bool:
    """As Docker, Podman and Kubernetes let those inside know."""
    return "KUBERNETES_SERVICE_HOST" in environ or any((root / mark).exists() for mark in MARKS)

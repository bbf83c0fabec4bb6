# SPDX-License-Identifier: Apache-2.0
"""What a measurement may depend on: the processor and the versions of packages."""

import platform
from importlib import metadata
from pathlib import Path


def cpu_name() -> str:
    """As the kernel calls it, where there is such a file."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def platform_name() -> str:
    """System, machine and C library, on which results may depend; not the build of the kernel."""
    parts = [platform.system(), platform.machine(), "-".join(platform.libc_ver())]
    return " ".join(part for part in parts if part.strip("-"))


def package_version(package: str) -> str | None:
    """The installed version; None if there is none."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None

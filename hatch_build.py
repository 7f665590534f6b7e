"""Builds the machine code of the kernels into the wheel, or beside the sources of an editable installation.

Where it cannot be built (no numba for this Python, no linker), the wheel's metadata names what compiles as dependencies, and
kernels are compiled where they run. What was built before from the same kernels is used again.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, cast

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from hatchling.metadata.plugin.interface import MetadataHookInterface
from packaging.tags import sys_tags

BUILT = "advisor/kernels/built"
NEVER = "ADVISOR_BUILD_LIBRARIES"  # 0: a pure wheel whose kernels are compiled where they run


def libraries(root: str) -> dict[str, Path]:
    """Return the library of each module with kernels, built where it was not yet; empty where that is not possible."""
    if os.environ.get(NEVER) == "0":
        return {}
    path = os.pathsep.join(filter(None, (root, os.environ.get("PYTHONPATH"))))
    command = [sys.executable, "-m", "advisor.kernels"]
    environment = os.environ | {"PYTHONPATH": path}
    made = subprocess.run(command, cwd=root, env=environment, stdout=subprocess.PIPE, text=True, check=False)  # noqa: S603
    if made.returncode:
        return {}
    return {module: Path(file) for module, _, file in (line.partition("\t") for line in made.stdout.splitlines())}


class Dependencies(MetadataHookInterface):
    """The dependencies of the package: what compiles is one where no machine code was built."""

    PLUGIN_NAME = "custom"

    def update(self, metadata: dict[str, Any]) -> None:
        """Set the dependencies."""
        config = cast("dict[str, list[str]]", self.config)
        compilers = [] if libraries(self.root) else config["unless-built"]
        metadata["dependencies"] = [*config["dependencies"], *compilers]


class Kernels(BuildHookInterface[Any]):
    """The machine code in the wheel."""

    PLUGIN_NAME = "custom"

    def dependencies(self) -> list[str]:
        """Return what the build needs beside hatchling and numba: a compiler from the package index where there is none."""
        has_compiler = "CC" in os.environ or shutil.which("cc")
        return [] if has_compiler else ["ziglang>=0.13"]

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Put the libraries into a wheel under names without a fingerprint; for an editable one they lie beside the sources."""
        found = libraries(self.root)
        if not found and os.environ.get(NEVER) != "0":
            self.app.display_warning(
                "no machine code was built: kernels are compiled where they run; what failed stands above"
            )
        if version == "standard" and found:
            platforms = (tag.platform for tag in sys_tags() if not tag.platform.startswith(("manylinux", "musllinux")))
            build_data["pure_python"] = False
            build_data["tag"] = f"cp311-abi3-{next(platforms)}"
            build_data["force_include"] |= {str(file): f"{BUILT}/{module}.abi3.so" for module, file in found.items()}
        for file in found.values() if version == "editable" else ():
            beside = Path(self.root, BUILT, file.name)
            if not beside.exists():  # it is in the cache that ADVISOR_KERNELS_DIR names
                beside.parent.mkdir(exist_ok=True)
                shutil.copyfile(file, beside)

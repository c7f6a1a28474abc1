"""The kernel that runs chapters: this interpreter, whatever kernels and settings the user has."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

# what would change how chapters run: asserts off, another path, another shell configuration
_HARMFUL = (
    "PYTHONOPTIMIZE",
    "PYTHONPATH",
    "PYTHONSTARTUP",
    "PYTHONWARNINGS",
    "PYTHONINSPECT",
    "PYTEST_ADDOPTS",
)


def environment(root: Path, scratch: Path, base: Mapping[str, str] | None = None) -> dict[str, str]:
    """The environment for a kernel or for nbval: `base` (os.environ) without what harms.

    `root` is the workbook that the chapters read; `scratch` an existing folder for IPython's and
    Jupyter's own files, so that nothing of the user's profile is read or written.
    """
    runtime = scratch / "runtime"
    runtime.mkdir(mode=0o700, exist_ok=True)
    found = {name: value for name, value in (base or os.environ).items() if name not in _HARMFUL}
    found.update(
        LAB_ROOT=str(root),
        IPYTHONDIR=str(scratch / "ipython"),
        JUPYTER_CONFIG_DIR=str(scratch / "jupyter"),
        JUPYTER_RUNTIME_DIR=str(runtime),
        JUPYTER_PLATFORM_DIRS="1",
        PYTHONUTF8="1",
    )
    return found


def kernel_manager_class() -> Any:
    """A jupyter_client AsyncKernelManager for which every kernel name means this interpreter.

    Messages go through sockets in Jupyter's runtime folder (see `environment`): no TCP ports to race
    for, and nobody else on the machine can read them.
    """
    from ipykernel.kernelspec import RESOURCES, get_kernel_dict
    from jupyter_client.kernelspec import KernelSpec, KernelSpecManager
    from jupyter_client.manager import AsyncKernelManager

    class ThisInterpreter(KernelSpecManager):
        def get_kernel_spec(self, kernel_name: str) -> KernelSpec:
            spec = get_kernel_dict()
            spec["argv"][0] = sys.executable
            return KernelSpec(resource_dir=RESOURCES, **spec)

    class LocalKernelManager(AsyncKernelManager):
        def __init__(self, **kwargs: Any) -> None:
            sockets = Path(os.environ["JUPYTER_RUNTIME_DIR"]) / "zmq"
            super().__init__(
                kernel_spec_manager=ThisInterpreter(), transport="ipc", ip=str(sockets), **kwargs
            )

    return LocalKernelManager

"""The scripted engine and the small sockets of the server's own tests, for the faults of others."""

import importlib.util
from pathlib import Path

_path = Path(__file__).parents[1] / "server" / "conftest.py"
_spec = importlib.util.spec_from_file_location("server_fixtures", _path)
_module = importlib.util.module_from_spec(_spec)  # type: ignore[arg-type]
_spec.loader.exec_module(_module)  # type: ignore[union-attr]

anyio_backend, bench, local, _settle = (
    getattr(_module, name) for name in ("anyio_backend", "bench", "local", "_settle")
)

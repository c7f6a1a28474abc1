"""Imports nbformat without the import that takes most of its time: import this module first.

nbformat validates with jsonschema, which on import builds a grammar for internationalised URIs where
`rfc3987_syntax` is installed (JupyterLab brings it). That takes longer than starting a kernel, and the
notebook schema holds no URIs. Measured here: 1.6 s for `import nbformat`, 0.25 s without the grammar.
"""

from __future__ import annotations

import sys

_GRAMMAR = "rfc3987_syntax"

if _GRAMMAR not in sys.modules:
    sys.modules[_GRAMMAR] = None  # type: ignore[assignment]  # jsonschema goes on without it
    try:
        import nbformat
    finally:
        del sys.modules[_GRAMMAR]  # whoever wants it later still gets it
else:
    import nbformat

__all__ = ["nbformat"]

"""The one exception of `lab.model`: whatever is wrong with a checkpoint, a config or an input.

The message is one line that a user can act on; the cause is kept with `raise ... from`.
"""

from __future__ import annotations

from lab.core.errors import LabError


class ModelError(LabError):
    """A checkpoint that is absent or broken, a config that does not add up, or an input out of range."""

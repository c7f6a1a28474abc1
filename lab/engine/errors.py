"""The exceptions of `lab.engine`.

EngineError          anything an engine cannot do
├── ConfigError      a setting that makes no sense
├── SubmitError      a submit that can never run; becomes a `Failed` event
└── HostError        an engine thread or process that did not start, or talks nonsense
"""

from __future__ import annotations

from lab.core.errors import LabError


class EngineError(LabError):
    """Anything an engine cannot do."""


class ConfigError(EngineError, ValueError):
    """A setting that makes no sense."""


class SubmitError(EngineError, ValueError):
    """A submit that can never run. It never leaves the loop: the attempt gets a `Failed` event."""


class HostError(EngineError):
    """An engine thread or process that did not start, or a peer that sent something unreadable."""

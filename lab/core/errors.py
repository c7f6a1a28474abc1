"""The exception tree of the package's core, in one place.

``LabError`` is the root for all of ``lab``. Those that stand for a bad value are also a ``ValueError``,
so that a caller who knows nothing of the workbook can still catch them.
"""


class LabError(Exception):
    """Root of every exception that ``lab`` raises on purpose."""


class CoreError(LabError):
    """Root of the exceptions of ``lab.core``."""


class SettingsError(CoreError, ValueError):
    """A setting has a value that means nothing: NaN, negative, or zero where zero would end all at once."""


class CapacityError(CoreError, ValueError):
    """A bound was set wrongly, or broken: a put beyond the capacity, more credits back than were lent."""


class TransitionError(CoreError):
    """A move that the transition table does not hold. Always a bug in the caller, never bad luck."""


class CountError(CoreError, ValueError):
    """Token counts that contradict each other."""


class TraceError(CoreError, ValueError):
    """A trace was asked for with settings that define no trace."""


class SSEError(CoreError):
    """A byte stream is not Server-Sent Events, or an event is larger than the parser may hold."""

"""The exceptions of ``lab.http``, in one place."""

from lab.core.errors import LabError


class HttpError(LabError):
    """Root of the exceptions of ``lab.http``."""


class BodyTooLarge(HttpError):
    """A request body is longer than the server reads."""


class BodyTimeout(HttpError):
    """A request body did not come in time."""


class ClientGone(HttpError):
    """The client left before its request was complete."""


class BindError(HttpError):
    """The address to listen on cannot be had."""

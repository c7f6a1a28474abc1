"""When things happened to one request: instants now, intervals later.

The owner of the request stamps; ``lab.core.record`` subtracts. Keeping the instants raw until the end means
that one function decides what every latency means.
"""


class Stamps:
    """The instants of one request, in seconds on the monotonic clock of the serving process.

    ``parked`` is all the time spent parked; ``parked_before_last`` the part of it before the last token,
    which is what the decode window must not be charged for.
    """

    __slots__ = (
        "_parked_at",
        "accepted_at",
        "arrived_at",
        "closed_at",
        "ended_at",
        "first_sent_at",
        "first_token_at",
        "last_sent_at",
        "last_token_at",
        "parked",
        "parked_before_last",
        "started_at",
    )

    def __init__(self, arrived_at: float, accepted_at: float) -> None:
        self.arrived_at = arrived_at
        self.accepted_at = accepted_at
        self.started_at: float | None = None
        self.first_token_at: float | None = None
        self.last_token_at: float | None = None
        self.first_sent_at: float | None = None
        self.last_sent_at: float | None = None
        self.ended_at: float | None = None
        self.closed_at: float | None = None
        self.parked = 0.0
        self.parked_before_last = 0.0
        self._parked_at: float | None = None

    def on_started(self, now: float) -> None:
        """The engine took the request out of its queue."""
        self.started_at = now

    def on_token(self, now: float) -> None:
        """One token or more were generated; one that comes in a park had been on its way."""
        if self.first_token_at is None:
            self.first_token_at = now
        self.last_token_at = now
        self.parked_before_last = self.parked
        if self._parked_at is not None:
            self.parked_before_last += now - self._parked_at

    def on_parked(self, now: float) -> None:
        """Out of the batch; a second park in a row is part of the first."""
        if self._parked_at is None:
            self._parked_at = now

    def on_resumed(self, now: float) -> None:
        """Back in the batch; without a park before it nothing happens."""
        if self._parked_at is not None:
            self.parked += now - self._parked_at
            self._parked_at = None

    def on_sent(self, now: float) -> None:
        """The ASGI send of an event with tokens returned."""
        if self.first_sent_at is None:
            self.first_sent_at = now
        self.last_sent_at = now

    def on_ended(self, now: float) -> None:
        """The one ending; whoever ends while parked has been parked until now."""
        self.ended_at = now
        self.on_resumed(now)

    def on_closed(self, now: float) -> None:
        """The response is closed: the last send returned, or the socket is gone."""
        self.closed_at = now

    def snapshot(self) -> dict[str, float | None]:
        """Every instant, and the sums of parked time, in seconds."""
        return {name: getattr(self, name) for name in self.__slots__ if not name.startswith("_")}

    def __repr__(self) -> str:
        return f"Stamps({self.snapshot()})"

"""A clock that can be moved on."""

from lakebed.env.clock import Instant, SystemClock, after


class Later(SystemClock):
    """The machine's clock, and so many seconds more."""

    def __init__(self) -> None:
        self.ahead = 0.0

    def now(self) -> Instant:
        return after(super().now(), self.ahead)

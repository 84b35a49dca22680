"""The time that a device believes (docs/certificates.md, "Time"): of its enrolment and its server, not of its clock."""

from __future__ import annotations

import time

# The most that a monotonic clock may run behind: two plain quartzes.
_MAX_DRIFT = 200e-6


class LearnedTime:
    """
    Milliseconds since 1970 by what a server states, and by the monotonic clock.

    A server's word moves what is learned for good no further than the monotonic clock allows since the start, or since
    the fleet's owner stated the time. A larger step counts until a server states another time.
    """

    def __init__(self, learned_ms: float, number: int = 0) -> None:
        self._anchor = self._permanent = (learned_ms, _now_ms())
        self._stated: tuple[float, float] | None = None
        self.number = number
        """The number of the owner's newest statement; 0: none came."""

    @property
    def permanent_ms(self) -> float:
        """The earliest that it can be now, whatever any server says."""
        return _counted(self._permanent)

    @property
    def present_ms(self) -> float:
        """The time by which the device works."""
        return max(self.permanent_ms, 0 if self._stated is None else _counted(self._stated))

    def stated(self, server_ms: float) -> None:
        """Take the time that a server signed."""
        now = _now_ms()
        most = self._anchor[0] + (now - self._anchor[1]) * (1 + _MAX_DRIFT)
        self._permanent = max(self.permanent_ms, min(server_ms, most)), now
        self._stated = server_ms, now

    def owner_stated(self, number: int, owner_ms: float) -> bool:
        """Take what the owner signed, also an earlier time; False where it is not newer than what came before."""
        if number <= self.number:
            return False
        self._anchor = self._permanent = (owner_ms, _now_ms())
        self.number = number
        return True


def _now_ms() -> float:
    return time.monotonic() * 1000


def _counted(reading: tuple[float, float]) -> float:
    return reading[0] + max(0.0, _now_ms() - reading[1])

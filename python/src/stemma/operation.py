"""Work of the server that outlives its request, and how to wait for its end."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from stemma.errors import StemmaError

State = TypeVar("State")

POLL_SECONDS = 1.0


@dataclass(frozen=True)
class Operation(Generic[State]):
    """Something that the server does: a rollout, or a job. It goes on whether or not anybody waits."""

    name: str
    """What it is, in errors: `the rollout autumn`."""
    status: Callable[[], State]
    """Ask the server for its present state."""
    is_over: Callable[[State], bool]
    """Whether a state is its last one; raises where it failed."""

    def wait(
        self,
        timeout: float | None = None,
        on_progress: Callable[[State], None] | None = None,
        poll_seconds: float = POLL_SECONDS,
    ) -> State:
        """
        Wait until it is over, and give its last state.

        After `timeout` seconds `TIMED_OUT` is raised; the operation goes on. `on_progress` gets every state.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        while True:
            state = self.status()
            if on_progress is not None:
                on_progress(state)
            if self.is_over(state):
                return state
            if deadline is None:
                time.sleep(poll_seconds)
                continue
            left = deadline - time.monotonic()
            if left <= 0:
                raise StemmaError(
                    "TIMED_OUT", f"{self.name} was not over after {timeout:g} s and goes on. Wait for it again."
                )
            time.sleep(min(left, poll_seconds))

"""How far something is: told to a callback, else shown as a bar where a person sees it."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Iterator

Progress = Callable[[int, int], None]
"""Gets what is done and what there is in all, in bytes or in devices."""

BAR_COLUMNS = 24
_PAUSE_SECONDS = 0.2


class Bar:
    """A line on a terminal's standard error that is written again and again; nothing where that is no terminal."""

    def __init__(self, title: str) -> None:
        self._title = title[:40]
        self._is_shown = sys.stderr is not None and sys.stderr.isatty()
        self._next = 0.0

    def __call__(self, done: int, total: int) -> None:
        """Show how far it is."""
        now = time.monotonic()
        if not self._is_shown or (now < self._next and done < total):
            return
        self._next = now + _PAUSE_SECONDS
        share = done / total if total > 0 else 1.0
        filled = int(share * BAR_COLUMNS)
        bar = "#" * filled + "." * (BAR_COLUMNS - filled)
        end = "\n" if done >= total else ""
        sys.stderr.write(f"\r{self._title} [{bar}] {share:4.0%}{end}")
        sys.stderr.flush()


def counted(pieces: Iterable[bytes], total: int, progress: Progress) -> Iterator[bytes]:
    """Pass pieces on, and report how many bytes have passed."""
    done = 0
    for piece in pieces:
        yield piece
        done += len(piece)
        progress(done, total)

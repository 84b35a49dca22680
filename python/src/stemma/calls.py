"""What the generated methods stand on: how an operation's arguments become a request."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Any, Protocol
from urllib.parse import quote, urlencode

from stemma.errors import StemmaError


class Absent(Enum):
    """The type of `ABSENT`."""

    ABSENT = "absent"


ABSENT = Absent.ABSENT
"""Stands for a member that is left out, where None means null."""


def given(value: object) -> object:
    """Turn None into `ABSENT`, for members that cannot be null."""
    return ABSENT if value is None else value


class Exchange(Protocol):
    """Sends one request of an operation and gives its checked answer."""

    def __call__(
        self, operation: str, method: str, path: str, body: Mapping[str, object] | None, *, is_long: bool
    ) -> Any:
        """Send the request; `is_long` where minutes may pass before the answer."""


class Caller:
    """Fills in paths, queries and bodies."""

    def __init__(self, exchange: Exchange, fleet: str) -> None:
        self._exchange = exchange
        self._fleet = fleet

    def _call(
        self,
        operation: str,
        method: str,
        template: str,
        *,
        path: Mapping[str, object] | None = None,
        query: Mapping[str, object] | None = None,
        body: Mapping[str, object] | None = None,
        is_long: bool = False,
    ) -> Any:
        members = {name: value for name, value in (body or {}).items() if value is not ABSENT}
        target = path_of(template, path or {}, self._fleet) + query_of(query or {})
        return self._exchange(operation, method, target, members if method == "POST" else None, is_long=is_long)


def path_of(path: str, parts: Mapping[str, object], fleet: str) -> str:
    """Put values into a path such as /v1/fleets/{fleet}/models."""
    for name, value in parts.items():
        text = fleet if name == "fleet" and value is None else value
        if not isinstance(text, str) or text in ("", ".", ".."):
            raise StemmaError("USAGE", f"The {name} {text!r} cannot be part of a request's path. Name another.")
        path = path.replace("{" + name + "}", quote(text, safe=""))
    return path


def query_of(query: Mapping[str, object]) -> str:
    """Write a query; members that are ABSENT are left out, lists are repeated."""
    pairs: list[tuple[str, str]] = []
    for name, value in query.items():
        if value is ABSENT:
            continue
        for each in value if isinstance(value, (list, tuple)) else [value]:
            pairs.append((name, str(each).lower() if isinstance(each, bool) else str(each)))
    return "?" + urlencode(pairs) if pairs else ""

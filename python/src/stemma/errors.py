"""The one error of this package: its code is for programs, its message for people."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


class StemmaError(Exception):
    """Says what happened, where, and what to do next. Match `code` (docs/reference/errors.md), never the text."""

    def __init__(self, code: str, message: str, details: Mapping[str, Any] | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.details: dict[str, Any] = dict(details or {})

    def __str__(self) -> str:
        return f"{self.code}: {self.message}"

    def __reduce__(self) -> tuple[type[StemmaError], tuple[str, str, dict[str, Any]]]:
        return (type(self), (self.code, self.message, self.details))

"""
Stemma from Python: `connect` to a server; `stemma.agent` and `stemma.device` on a device; `stemma.training` records.

Errors are `StemmaError` with a code.
"""

from typing import TYPE_CHECKING, Any

from stemma.errors import StemmaError

if TYPE_CHECKING:
    from stemma.client import Client, Version, connect
    from stemma.operation import Operation

__all__ = ["Client", "Operation", "StemmaError", "Version", "connect"]


def __getattr__(name: str) -> Any:
    """Load the client of a server once it is used: a device's programs need not have it in memory."""
    from importlib import import_module

    if name in ("Client", "Version", "connect"):
        return getattr(import_module("stemma.client"), name)
    if name == "Operation":
        return import_module("stemma.operation").Operation
    raise AttributeError(f"module 'stemma' has no attribute {name!r}")

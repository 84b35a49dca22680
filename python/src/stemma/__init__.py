"""
Stemma from Python: `connect` to a server; `stemma.agent` on a device; `stemma.training` records a training.

Errors are `StemmaError` with a code.
"""

from stemma.client import Client, Version, connect
from stemma.errors import StemmaError
from stemma.operation import Operation

__all__ = ["Client", "Operation", "StemmaError", "Version", "connect"]

"""
A device of a fleet in Python alone, over MQTT, by docs/protocol.md: the extra `stemma[device]`.

It trains nothing and measures nothing by itself: for that there is the agent.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from stemma.device.device import Device


def enrol(
    home: str | os.PathLike[str],
    invitation: str | os.PathLike[str] | Mapping[str, Any],
    *,
    certificate: tuple[str | os.PathLike[str], str | os.PathLike[str]] | None = None,
) -> None:
    """
    Make this device's keys and get their certificate; `Device` then runs in the same home.

    `invitation` is the file that `stemma device enroll` wrote, or what is in it. Called again after a lost answer, the
    same keys get the same certificate. `certificate` names the files of a certificate and its key that an authority of
    the fleet's owner issued, where the invitation demands one: they are read before each connection.
    """
    # What makes certificates is needed once.
    from stemma.device.enrolment import enrol_with

    enrol_with(home, invitation, certificate)


__all__ = ["Device", "enrol"]

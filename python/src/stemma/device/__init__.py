"""
A device of a fleet in Python alone, over MQTT, by docs/protocol.md: the extra `stemma[device]`.

It trains nothing and measures nothing by itself; it does not check signed releases, and does not follow a restored
server. For all that there is the agent.
"""

from stemma.device.device import Device
from stemma.device.enrolment import enrol

__all__ = ["Device", "enrol"]

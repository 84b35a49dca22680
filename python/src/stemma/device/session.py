"""One MQTT session of a device: what is sent, and which of the messages that come its server signed for it."""

from __future__ import annotations

import queue
import secrets
import struct
import time
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import urlsplit

import paho.mqtt.client as mqtt
from paho.mqtt.enums import CallbackAPIVersion

from stemma.device.history import is_signed
from stemma.device.state import Enrolled
from stemma.device.tls import UntimelyError
from stemma.device.wire import BODIES, MAX_BLOCK_BYTES, MAX_MESSAGE_BYTES, Message, decode, encode, text
from stemma.errors import StemmaError

CONNECT_SECONDS = 30.0
KEEPALIVE_SECONDS = 60
MAX_WAITING = 96
"""The most messages that wait: a window of blocks, and some more."""
_SIGNATURE_HEAD = bytes([6 << 3 | 2, 64])
_SIGNATURE_BYTES = 66
_WINDOW = 4096


class Session:
    """A connection with its own number. It is used by one thread; paho's own only fills the queue."""

    def __init__(self, identity: Enrolled, number: int, previous: int, learned_ms: Callable[[], float]) -> None:
        self._learned_ms = learned_ms
        self._identity = identity
        self._number = number
        self._previous = previous
        self._topic = f"{identity.root}/v1/{identity.fleet}/{identity.device}"
        self._sequence = 0
        self._waiting: queue.Queue[tuple[str, bytes]] = queue.Queue(MAX_WAITING)
        self._ended = ""
        self.was_refused = False
        """Whether the server did not admit this device."""
        self.untimely: str | None = None
        """The address whose certificate was refused for its validity alone."""
        self._client: mqtt.Client | None = None
        # The answers to one birth each: challenge, numbers that came, newest order, server's time minus ours.
        self._current: _Answers | None = None
        self._awaited: _Answers | None = None

    def open(self) -> None:
        """Connect, subscribe, and state the session."""
        last: Exception | None = None
        for address in self._identity.addresses:
            try:
                self._connect(address)
                break
            except OSError as error:
                last = error
                self.untimely = address if isinstance(error, UntimelyError) else self.untimely
        else:
            raise StemmaError("SERVER_UNREACHABLE", f"No address of the server can be reached: {last}. Try again.")
        assert self._client is not None  # noqa: S101
        deadline = time.monotonic() + CONNECT_SECONDS
        while not self._client.is_connected():
            if self._ended != "" or time.monotonic() > deadline:
                self.close()
                raise StemmaError("SERVER_UNREACHABLE", f"The server did not admit this device: {self._ended}.")
            time.sleep(0.01)
        self._client.subscribe([(f"{self._topic}/down/words", 1), (f"{self._topic}/block/down/+", 0)])
        self._client.publish(f"{self._topic}/state", self._state(True), qos=1, retain=True)

    def _connect(self, address: str) -> None:
        url = urlsplit(address)
        name = self._identity.device
        client = mqtt.Client(
            CallbackAPIVersion.VERSION2,
            client_id=f"{self._identity.fleet}:{name}",
            clean_session=True,
            protocol=mqtt.MQTTv311,
            reconnect_on_failure=False,
        )
        client.username_pw_set(name)
        client.will_set(f"{self._topic}/state", self._state(False), qos=1, retain=True)
        if url.scheme == "mqtts":
            client.tls_set_context(self._identity.tls(self._learned_ms))
        client.on_message = self._on_message
        client.on_disconnect = self._on_end
        client.on_connect = self._on_connect
        client.connect_timeout = CONNECT_SECONDS
        client.connect(url.hostname or "", url.port or (8883 if url.scheme == "mqtts" else 1883), KEEPALIVE_SECONDS)
        client.loop_start()
        self._client = client

    def close(self) -> None:
        """End the session."""
        if self._client is not None:
            self._client.disconnect()
            self._client.loop_stop()

    @property
    def why_ended(self) -> str:
        """Why the connection is gone; empty while it is there."""
        return self._ended

    def _on_message(self, _client: Any, _data: Any, message: mqtt.MQTTMessage) -> None:
        is_block = "/block/" in message.topic
        if len(message.payload) <= (MAX_BLOCK_BYTES if is_block else MAX_MESSAGE_BYTES) + 1024:
            try:
                self._waiting.put_nowait((message.topic, bytes(message.payload)))
            except queue.Full:
                # As any loss: it is asked for again.
                return

    def _on_connect(self, _client: Any, _data: Any, _flags: Any, reason: Any, _properties: Any) -> None:
        if reason.is_failure:
            # Return code 5 of MQTT 3.1.1, as paho names it; 3 is that of a server that has no time.
            self.was_refused = reason.getName() == "Not authorized"
            self._on_end(None, None, None, reason, None)

    def _on_end(self, _client: Any, _data: Any, _flags: Any, reason: Any, _properties: Any) -> None:
        self._ended = self._ended or str(reason) or "the connection was closed"

    def _state(self, online: bool) -> bytes:
        one = self._identity
        signed = b"stemma-session-1\0" + text(one.fleet) + text(one.device)
        signed += struct.pack("<IQQB", one.generation, self._number, self._previous, int(online))
        state = {
            "online": online,
            "previous_session": self._previous,
            "generation": one.generation,
            "signature": one.key.sign(signed),
        }
        return encode("Envelope", {"protocol": 1, "session": self._number, "state": state})

    def send(self, body: str, message: Mapping[str, Any], correlation: str = "", topic: str = "up/words") -> None:
        """Send a message; a block's topic names its transfer."""
        assert self._client is not None  # noqa: S101
        self._sequence += 1
        envelope = {
            "protocol": 1,
            "session": self._number,
            "sequence": self._sequence,
            "correlation": correlation,
            body: message,
        }
        self._client.publish(
            f"{self._topic}/{topic}", encode("Envelope", envelope), int(body != "block"), retain=topic == "birth"
        )

    def send_birth(self, birth: Mapping[str, Any]) -> None:
        """Send a birth with a new challenge, for which the server signs what follows."""
        self._awaited = _Answers(secrets.token_hex(16), time.monotonic())
        self.send("birth", birth, self._awaited.challenge, "birth")

    def receive(self, timeout: float) -> tuple[str, Message] | None:
        """
        Wait for a message, and give its topic and its envelope, with `body` as the name of the member that it has.

        None: none came, or what came is not signed for this session and birth, came already, or cannot be read.
        """
        try:
            topic, payload = self._waiting.get(timeout=timeout)
        except queue.Empty:
            return None
        try:
            return self.read(topic, payload)
        except StemmaError:
            return None

    def read(self, topic: str, payload: bytes) -> tuple[str, Message] | None:
        """Judge a payload; blocks have no signature, as the signed manifest has their hashes."""
        if "/block/down/" in topic:
            envelope = _named(decode("Envelope", payload))
            return (topic, envelope) if envelope["body"] == "block" else None
        for answers in (self._current, self._awaited):
            if answers is not None and self._is_signed(payload, answers.challenge):
                envelope = _named(decode("Envelope", payload[:-_SIGNATURE_BYTES]))
                return (topic, envelope) if self._is_taken(answers, envelope) else None
        if self._is_signed(payload, ""):
            envelope = _named(decode("Envelope", payload[:-_SIGNATURE_BYTES]))
            if envelope["body"] == "refusal" and envelope["session"] == self._number:
                return topic, envelope
        return None

    def _is_signed(self, payload: bytes, challenge: str) -> bool:
        end = len(payload) - _SIGNATURE_BYTES
        if end < 0 or payload[end : end + 2] != _SIGNATURE_HEAD:
            return False
        one = self._identity
        signed = b"stemma-server-message-1\0" + text(one.fleet) + text(one.device)
        signed += struct.pack("<I", one.generation) + text(challenge) + payload[:end]
        return is_signed(one.server_key, signed, payload[end + 2 :])

    def _is_taken(self, answers: _Answers, envelope: Message) -> bool:
        number = envelope["sequence"]
        if envelope["session"] != self._number or number in answers.seen or number <= answers.newest - _WINDOW:
            return False
        answers.seen.add(number)
        answers.newest = max(answers.newest, number)
        if len(answers.seen) > 2 * _WINDOW:
            answers.seen = {each for each in answers.seen if each > answers.newest - _WINDOW}
        if envelope["body"] == "welcome":
            answers.server_ms = envelope["welcome"]["clock_ms"]
            self._current = answers
            if self._awaited is answers:
                self._awaited = None
        elif envelope["body"] in ("offer", "command"):
            envelope["stale"] = not answers.is_order_due(envelope)
        return True


class _Answers:
    """What the server sends for one birth."""

    def __init__(self, challenge: str, asked: float) -> None:
        self.challenge = challenge
        self.asked = asked
        self.server_ms = 0
        self.seen: set[int] = set()
        self.newest = 0
        self.newest_order = 0

    def is_order_due(self, envelope: Message) -> bool:
        """Tell whether an order is newer than the one before, and neither expired nor of a time to come."""
        now_ms = self.server_ms + (time.monotonic() - self.asked) * 1000
        issued, expires = envelope["issued_ms"], envelope["expires_ms"]
        if envelope["sequence"] <= self.newest_order or issued > now_ms + 60_000:
            return False
        if expires > 0 and now_ms > issued + expires:
            return False
        self.newest_order = envelope["sequence"]
        return True


def _named(envelope: Message) -> Message:
    bodies = [name for name in BODIES if envelope[name] is not None]
    if envelope["protocol"] != 1 or len(bodies) != 1:
        raise StemmaError("PROTOCOL_VERSION_UNSUPPORTED", "A message has another version, or none that is known.")
    return {**envelope, "body": bodies[0]}

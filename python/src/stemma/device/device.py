"""A device of a fleet: fetches what it is offered, verifies and runs it, and reports the models that it makes."""

from __future__ import annotations

import json
import math
import os
import secrets
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from stemma.device.certificates import Renewal, asked_alone
from stemma.device.history import next_head
from stemma.device.offers import Offers
from stemma.device.releases import Releases
from stemma.device.reports import Reports
from stemma.device.restores import Belief
from stemma.device.session import Session
from stemma.device.space import BUDGET_BYTES, KEEP_LAST, Keeping, Space
from stemma.device.state import SPOOL_SECONDS, DeviceState, Enrolled
from stemma.device.store import disk_error
from stemma.device.wire import Message, decode
from stemma.errors import StemmaError

BIRTH_SECONDS = 5.0
LASTING_SECONDS = 15 * 60.0
DOUBTED_SECONDS = 10 * 60.0
"""A server that is not believed is asked again after so long; what it sends by itself may prove it sooner."""
ANNOUNCE_SECONDS = 60.0
MAX_PAUSE_SECONDS = 60.0
REFUSED_SECONDS = 30.0
"""A device that is not admitted waits at least so long."""
RENEWAL_SECONDS = 600.0


class Device:
    """One home of one device. Its methods are for one thread."""

    def __init__(
        self,
        home: str | os.PathLike[str],
        on_switch: Callable[[str, Path], None] | None = None,
        *,
        budget_bytes: int = BUDGET_BYTES,
        keep_last: int = KEEP_LAST,
    ) -> None:
        """
        Open the home of an enrolled device.

        It uses at most `budget_bytes` of the disk, and keeps the newest `keep_last` released models of each line.
        """
        if budget_bytes < 1 or keep_last < 1:
            raise StemmaError("USAGE", "A device needs a budget of bytes, and keeps at least one released model.")
        self._state = DeviceState(Path(home))
        self._space = Space(self._state, Keeping(budget_bytes, keep_last))
        self._releases = Releases(self._state.home, self._state.identity.file.get("releases"))
        self._belief = Belief(self._state, self._releases, self._tell)
        self._offers = Offers(self._state, self._releases, self._space, self._send, self._note)
        self._offers.on_switch = on_switch
        self._reports = Reports(self._state, self._space, self._send)
        self._session: Session | None = None
        self._renewal = Renewal(self._state.home, lambda: self._state.identity, lambda: self._state.time.permanent_ms)
        self._renewal_tried = -math.inf
        # Whether something was missed, which the server states again after another birth.
        self._asks_again = False
        self._born = self._announced = 0.0
        self.problems: list[StemmaError] = []
        """The newest of what went wrong, at most a hundred."""

    def connect(self, timeout: float = 60.0) -> None:
        """Open a session, and wait until the server has proven its history."""
        self._begin_session()
        self.wait(lambda: self._belief.is_believed, timeout)

    def _begin_session(self) -> None:
        self._state.lock()
        self._renew_if_due()
        try:
            self._open_session()
        except StemmaError:
            # An ended certificate is a reason that the server does not state.
            is_renewed = self.was_refused and self._renew_if_due(self.was_refused)
            if not (is_renewed or self._ask_owner_time()):
                raise
            self._open_session()
        self._send_birth()

    @property
    def was_refused(self) -> bool:
        """Whether the server did not admit this device the last time."""
        return self._session is not None and self._session.was_refused

    def _open_session(self) -> None:
        values = self._state.values
        self._state.store.forget_transfers(time.time() - SPOOL_SECONDS)
        values["session"] += 1
        self._state.keep()
        self._session = Session(
            self._state.identity, values["session"], values["accepted"], lambda: self._state.time.permanent_ms
        )
        self._belief.begin()
        self._releases.forget_parts()
        self._session.open()
        values["accepted"] = values["session"]
        self._state.keep()

    def close(self) -> None:
        """End the session and let others use the home; what is not reported stays there."""
        self._end_session()
        self._state.unlock()

    def _end_session(self) -> None:
        if self._session is not None:
            self._session.close()
        self._session = None
        self._offers.clear()
        self._reports.clear()

    def run(self, is_over: Callable[[], bool]) -> None:
        """Serve until told to stop, which is asked often; connects again with growing pauses."""
        pause = 1.0
        self._state.lock()
        while not is_over():
            try:
                self._begin_session()
                while not is_over() and self.step(0.2):
                    pause = 1.0 if self._belief.is_believed else pause
            except StemmaError as error:
                self._note(error)
            except OSError as error:
                self._note(disk_error(error))
            if self.was_refused:
                pause = max(pause, REFUSED_SECONDS)
            self._end_session()
            end = time.monotonic() + pause * (1 + secrets.randbelow(1000) / 1000)
            while not is_over() and time.monotonic() < end:
                time.sleep(0.1)
            pause = min(MAX_PAUSE_SECONDS, pause * 2)
        self.close()

    def wait(self, until: Callable[[], bool], timeout: float) -> None:
        """Serve until something is so."""
        deadline = time.monotonic() + timeout
        while not until():
            if time.monotonic() > deadline:
                raise StemmaError("TIMED_OUT", f"It was not so after {timeout:g} s. See `problems`, and wait again.")
            if not self.step(0.1):
                why = "there is none" if self._session is None else self._session.why_ended
                raise StemmaError("SERVER_UNREACHABLE", f"The session ended: {why}. Connect again.")

    def step(self, timeout: float) -> bool:
        """Wait for a message and act on it; False where there is no session any more."""
        session = self._session
        if session is None or session.why_ended != "":
            return False
        received = session.receive(timeout)
        try:
            if received is not None:
                self._act(*received)
            self._on_time(time.monotonic())
        except StemmaError as error:
            self._note(error)
        except OSError as error:
            self._note(disk_error(error))
        return True

    def current(self, line: str) -> Path | None:
        """Name the folder of the version that a line runs (docs/reference/current.md)."""
        link = self._state.home / "current" / line
        return link.resolve() if link.is_symlink() else None

    def versions(self, line: str) -> list[str]:
        """Name the versions of a line that this device has, oldest first."""
        return list(self._state.line(line)["versions"])

    def standing(self, version: str) -> str | None:
        """Tell how far a version of this device is: pending, recorded, stored, released or refused."""
        entry = self._state.entry(version)
        return None if entry is None else str(entry["standing"])

    def save(self, line: str, tensors: Mapping[str, Any], metrics: Mapping[str, Any] | None = None) -> str:
        """
        Save a model that was trained from what the line runs, and give its version id. It is durable then.

        It has the tensors of its base, by name. It is reported in the next session, and runs once that is recorded.
        """
        try:
            version = self._reports.save(line, tensors, metrics)
        except OSError as error:
            raise disk_error(error) from error
        self._announced = 0.0
        return version

    def renew(self) -> None:
        """Get a new certificate for a new key; a device that runs does so itself, in time."""
        self._take_certificate(self._renewal.ask())

    def _take_certificate(self, answer: Any) -> None:
        before = self._state.identity.server_key
        self._renewal.take(answer)
        self._state.identity = Enrolled(self._state.home)
        if self._state.identity.server_key != before:
            # What the session before was signed with does not count any more.
            self._end_session()

    def _renew_if_due(self, was_refused: bool = False) -> bool:
        """Renew the certificate in time; without a renewal the present one is tried."""
        now = time.monotonic()
        if self._state.identity.owned is not None:
            return False
        is_due = was_refused or self._renewal.is_due(self._state.time.present_ms)
        if not is_due or now - self._renewal_tried < RENEWAL_SECONDS:
            return False
        self._renewal_tried = now
        try:
            self.renew()
            return True
        except StemmaError as error:
            self._note(error)
        except OSError as error:
            self._note(disk_error(error))
        return False

    def _send(self, body: str, message: Mapping[str, Any], correlation: str = "", topic: str = "up/words") -> None:
        if self._session is not None:
            self._session.send(body, message, correlation, topic)

    def _send_birth(self) -> None:
        self._born = time.monotonic()
        self._asks_again = False
        if self._session is not None:
            birth = {**self._state.birth(), **self._belief.birth(), **self._releases.birth()}
            self._session.send_birth(birth)

    def _on_time(self, now: float) -> None:
        lasting = LASTING_SECONDS if self._belief.is_believed else DOUBTED_SECONDS
        is_settled = (self._belief.is_believed or self._belief.is_refused) and not self._asks_again
        if now - self._born > (lasting if is_settled else BIRTH_SECONDS):
            self._send_birth()
        if not self._belief.is_believed:
            return
        self._renew_if_due()
        self._offers.move(now)
        if now - self._announced > ANNOUNCE_SECONDS:
            self._announced = now
            self._space.tidy_noted(self._note)
            self._reports.announce()
            for line in self._state.values["lines"]:
                self._offers.report(line)

    def _act(self, topic: str, envelope: Message) -> None:
        body, now = envelope["body"], time.monotonic()
        message = envelope[body]
        if body == "welcome":
            self._on_welcome(message)
        elif body == "refusal":
            self._reports.refused(message)
            if not self._offers.refused(message):
                self._note(StemmaError(message["code"][:64], message["message"][:4096]))
        elif body == "command":
            self._on_command(envelope)
        elif body == "owner_time":
            # It proves itself: what was refused by the time before comes again after another birth.
            if self._take_owner_time(message["statement"]):
                self._send_birth()
        elif body == "release_part" and (self._belief.is_believed or self._belief.waits_for_owner):
            # They may bring the key that signed a restore, which another birth asks about.
            if self._releases.take(message, self._state.time.present_ms) and self._belief.waits_for_owner:
                self._asks_again = True
        elif self._belief.is_believed:
            self._act_believed(topic, envelope, now)

    def _ask_owner_time(self) -> bool:
        """Ask a server whose certificate is refused for its validity alone for the owner's time; True: it is new."""
        address = None if self._session is None else self._session.untimely
        if address is None:
            return False
        try:
            payload, _ = asked_alone(self._state.identity, address, ("time", None), None)
            statement = (decode("Envelope", payload)["owner_time"] or {}).get("statement", "")
            return statement != "" and self._take_owner_time(statement)
        except StemmaError as error:
            self._note(error)
        except OSError as error:
            self._note(StemmaError("SERVER_UNREACHABLE", f"The owner's time was not given: {error}. Try again."))
        return False

    def _take_owner_time(self, statement: str) -> bool:
        """Take the owner's statement of the time; True where it is new."""
        number, owner_ms = self._releases.owner_time(self._state.identity.fleet, statement)
        if not self._state.time.owner_stated(number, owner_ms):
            return False
        self._state.keep()
        return True

    def _act_believed(self, topic: str, envelope: Message, now: float) -> None:
        body = envelope["body"]
        message = envelope[body]
        if body == "offer" and envelope["stale"]:
            self._asks_again = True
        elif body == "offer":
            self._offers.take(message)
        elif body == "manifest":
            self._offers.on_manifest(message, now)
        elif body == "block":
            self._offers.on_block(topic.rpartition("/")[2], message, now)
        elif body == "want":
            self._reports.on_want(message)
        elif body == "block_request":
            self._reports.on_request(message)
        elif body == "receipt":
            self._on_receipt(message)
        elif body == "activation_receipt":
            line = self._state.line(message["line"])
            line["reported"] = max(line["reported"], min(message["number"], line["number"]))
            self._state.keep()

    def _on_welcome(self, welcome: Message) -> None:
        self._state.time.stated(welcome["clock_ms"])
        if not self._belief.take(welcome):
            self._asks_again = True
            return
        self._offers.window = max(1, min(welcome["window"] or 8, 64))
        for known in welcome["known"]:
            if known["line"] in self._state.identity.lines:
                line = self._state.line(known["line"])
                line["sequence"] = max(line["sequence"], known["sequence"])
                line["reported"] = min(known["active_number"], line["number"])
        self._state.keep()
        self._announced = 0.0

    def _on_receipt(self, receipt: Message) -> None:
        head = next_head(self._state.identity.server_key, self._state.seen, receipt["head"], receipt["start"])
        if head is None:
            self._asks_again = True
            return
        version = self._reports.on_receipt(receipt, head)
        self._space.tidy_noted(self._note)
        entry = None if version is None else self._state.entry(version)
        if version is None or entry is None:
            return
        # What was made from another version than the line runs by now is reported, and not run.
        if self._state.line(entry["line"])["active"] in self._state.record(version).bases:
            self._offers.switch(entry["line"], version)

    def _on_command(self, envelope: Message) -> None:
        """Answer commands; this client measures nothing and trains nothing by itself."""
        name = envelope["command"]["name"]
        code, value = "USAGE", {"message": f"This client does not know the command {name[:40]}."}
        if not self._belief.is_believed:
            code, value = "HISTORY_UNPROVEN", {"message": "The server has not proven its history."}
        elif envelope["stale"]:
            self._asks_again = True
            code, value = "TIMED_OUT", {"message": "The command came too late or out of order. Send it again."}
        elif name == "gates":
            why = "this client measures nothing"
            code, value = "", {"losses": why, "outputs": why, "live": why, "measuredBy": "nothing"}
        elif name in ("certificate-request", "certificate"):
            code, value = self._renewed_by(name, envelope["command"]["json"])
        elif name == "evaluate":
            code, value = "DATASET_EMPTY", {"message": "This client has no held-out samples."}
        self._send("command_result", {"code": code, "json": json.dumps(value)}, envelope["correlation"])

    def _renewed_by(self, name: str, body: str) -> tuple[str, dict[str, Any]]:
        try:
            if name == "certificate-request":
                return "", self._renewal.request()
            self._take_certificate(json.loads(body)["answer"])
            return "", {"notAfterMs": self._state.identity.file["notAfterMs"]}
        except (StemmaError, ValueError, KeyError, TypeError, RecursionError) as error:
            code = error.code if isinstance(error, StemmaError) else "ENROLMENT_INVALID"
            return code, {"message": str(error)[:4096]}

    def _tell(self, name: str, text: str) -> None:
        self._send("event", {"name": name, "text": text[:4096], "line": "", "version_id": b""})

    def _note(self, error: StemmaError) -> None:
        self.problems.append(error)
        del self.problems[:-100]

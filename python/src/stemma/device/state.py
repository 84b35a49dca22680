"""What a device is and where it stands: its enrolment, its lines, what waits to be reported. On its disk."""

from __future__ import annotations

import base64
import fcntl
import json
import os
import platform
import struct
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from stemma.device.history import NO_HEAD, Head, is_signed
from stemma.device.layouts import Layout, decode_layout
from stemma.device.record import Record, read_record
from stemma.device.store import Leaf, Store, read_json, write_durably
from stemma.device.times import LearnedTime
from stemma.device.tls import DeviceContext, device_context
from stemma.errors import StemmaError

ENROLMENT = "enrolment.json"
STATE = "state.json"
VERSION = "0.1.0"
MAX_PEM_BYTES = 64 * 1024
SPOOL_SECONDS = 14 * 86_400
"""For so long a transfer can go on after the last block that came."""
STANDINGS = ("recorded", "stored", "released")


@dataclass(frozen=True)
class OwnedFiles:
    """A certificate of the owner's authority and its key, in files that the owner replaces."""

    file: Path
    key: Path

    @staticmethod
    def of(names: Any) -> OwnedFiles | None:
        """Read where they are; None where the server issued the certificate."""
        return None if names is None else OwnedFiles(Path(names["file"]), Path(names["key"]))

    def read(self) -> tuple[str, str]:
        """Give the certificate, with those between it and the authority, and its key, in PEM."""
        texts: list[str] = []
        for path in (self.file, self.key):
            try:
                if path.stat().st_size > MAX_PEM_BYTES:
                    raise ValueError("it is too large")
                texts.append(path.read_text(encoding="ascii"))
            except (OSError, ValueError) as error:
                raise StemmaError(
                    "CERTIFICATE_REFUSED", f"{path}, of this device's own certificate, cannot be read: {error}."
                ) from error
        return texts[0], texts[1]


class Enrolled:
    """The identity of an enrolled device, from its home."""

    def __init__(self, home: Path) -> None:
        file = read_json(home / ENROLMENT, "ENROLMENT_INVALID")
        try:
            self.fleet, self.device, self.root = str(file["fleet"]), str(file["device"]), str(file["root"])
            self.generation = int(file["generation"])
            self.addresses = [str(each) for each in file["mqtt"]]
            self.lines = [str(each) for each in file["lines"]]
            self.profile = str(file["profile"])
            self.server_key = bytes.fromhex(file["serverPublicKey"])
            self.key = Ed25519PrivateKey.from_private_bytes(bytes.fromhex(file["deviceSeed"]))
            self.owned = OwnedFiles.of(file.get("ownerCertificate"))
            self._pem = "" if self.owned is not None else f"{file['certificate']}\n{file['connectionKey']}"
            self.authorities = "".join(file["authorities"])
            self.file = file
        except (KeyError, TypeError, ValueError) as error:
            raise StemmaError("ENROLMENT_INVALID", f"{home / ENROLMENT} is damaged: {error}. Enrol again.") from error
        self._home = home

    @property
    def subject(self) -> dict[str, Any]:
        """What its certificate is for."""
        return {"fleet": self.fleet, "device": self.device, "generation": self.generation}

    def sign(self, request: str) -> str:
        """Sign the request of a renewal with the key of the present certificate."""
        from cryptography.hazmat.primitives import hashes, serialization
        from cryptography.hazmat.primitives.asymmetric import ec

        key = serialization.load_pem_private_key(self.file["connectionKey"].encode("ascii"), None)
        if not isinstance(key, ec.EllipticCurvePrivateKey):
            raise StemmaError("ENROLMENT_INVALID", "The connection's key is not of an elliptic curve. Enrol again.")
        return base64.b64encode(key.sign(request.encode("ascii"), ec.ECDSA(hashes.SHA256()))).decode("ascii")

    def tls(self, now_ms: Callable[[], float] | None) -> DeviceContext:
        """Give the context of a connection; without a time the validity of the server's certificate does not matter."""
        if self.owned is not None:
            return device_context(self.authorities, (self.owned.file, self.owned.key), now_ms)
        # Python reads a certificate from a file only.
        path = self._home / "connection.pem"
        write_durably(path, self._pem.encode("ascii"))
        return device_context(self.authorities, (path, path), now_ms)

    def is_offer_signed(self, offer: dict[str, Any]) -> bool:
        """Tell whether the server signed an offer for this device and enrolment."""
        names = (self.fleet, self.device, offer["line"])
        signed = b"stemma-stage-1\0" if offer["staged"] else b"stemma-offer-2\0"
        signed += b"".join(name.encode("utf-8") + b"\0" for name in names)
        signed += struct.pack("<I", self.generation) + offer["version_id"]
        return offer["generation"] == self.generation and is_signed(self.server_key, signed, offer["signature"])


class DeviceState:
    """The home of a device: objects, and what has to be known after a restart."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.identity = Enrolled(home)
        self.store = Store(home)
        self.values: dict[str, Any] = {}
        self.time = LearnedTime(0)
        self._lock: int | None = None
        self.lock()

    def lock(self) -> None:
        """Take the home for this object, and read it: two that use one home would be two devices of one name."""
        if self._lock is not None:
            return
        handle = os.open(self.home / "lock", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(handle)
            raise StemmaError(
                "HOME_LOCKED", f"Another program uses {self.home}. End it, or wait until it ends."
            ) from error
        self._lock = handle
        empty: dict[str, Any] = {"format": 1, "session": 0, "accepted": 0, "head": None, "lines": {}, "outbox": {}}
        path = self.home / STATE
        self.values = read_json(path, "HOME_FORMAT_UNKNOWN") if path.exists() else empty
        self._list_versions()
        learned_ms, issued_ms = self.values.get("timeMs", 0), int(self.identity.file.get("issuedAtMs", 0))
        # What the owner stated may be earlier than what a server wrote into a certificate.
        is_owners = self.values.get("timeOf") == self.identity.generation
        self.time = LearnedTime(
            learned_ms if is_owners else max(learned_ms, issued_ms), self.values.get("timeNumber", 0)
        )
        self._follow_links()

    def _list_versions(self) -> None:
        """Note which versions are here, in a home of an earlier release, which did not."""
        lines = self.values["lines"]
        if all("versions" in line for line in lines.values()):
            return
        installed = [each for each in (self.home / "versions").glob("*") if not each.name.startswith(".")]
        names = [each.name for each in sorted(installed, key=lambda folder: folder.stat().st_mtime)]
        for name, line in lines.items():
            of_others = {each for each, entry in self.values["outbox"].items() if entry["line"] != name}
            line.setdefault("versions", [each for each in names if each not in of_others])

    def _follow_links(self) -> None:
        """Let lines run what their links point to, which programs read: a kill may come before that is noted."""
        for name, line in self.values["lines"].items():
            link = self.home / "current" / name
            version = link.readlink().name if link.is_symlink() else None
            if version is not None and version != line["active"] and version in line["versions"]:
                self.switched(name, version)

    def switched(self, name: str, version: str) -> None:
        """Note that a line runs another version."""
        line, replaced = self.values["lines"][name], self.values.setdefault("replaced", {})
        if line["active"] is not None:
            replaced[line["active"]] = self.time.permanent_ms
        replaced.pop(version, None)
        if line.get("staged") == version:
            line["staged"] = None
        line |= {"previous": line["active"], "active": version, "number": line["number"] + 1, "atMs": now_ms()}

    def unlock(self) -> None:
        """Let others use the home."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def keep(self) -> None:
        """Make the state durable."""
        self.values["timeMs"] = int(self.time.permanent_ms)
        self.values["timeNumber"] = self.time.number
        if self.time.number > 0:
            self.values["timeOf"] = self.identity.generation
        write_durably(self.home / STATE, json.dumps(self.values).encode("utf-8"))

    @property
    def seen(self) -> Head:
        """The newest head that was verified."""
        head = self.values["head"]
        return NO_HEAD if head is None else Head(head["length"], *(bytes.fromhex(head[it]) for it in ("chain", "root")))

    def keep_head(self, head: Head) -> None:
        """Keep a head that was verified."""
        self.values["head"] = {"length": head.length, "chain": head.chain.hex(), "root": head.root.hex()}
        self.keep()

    def line(self, name: str) -> dict[str, Any]:
        """Give what is known of a line: the version that it runs, its number, and how much of that is reported."""
        if name not in self.identity.lines:
            raise StemmaError("LINE_UNKNOWN", f"This device does not have the line {name}. Enrol it with that line.")
        empty: dict[str, Any] = {"active": None, "number": 0, "reported": 0, "sequence": 0, "atMs": 0, "versions": []}
        line: dict[str, Any] = self.values["lines"].setdefault(name, empty)
        return line

    def entry(self, version: str) -> dict[str, Any] | None:
        """Give what is known of a version of this device's own."""
        entry: dict[str, Any] | None = self.values["outbox"].get(version)
        return entry

    def record(self, version: str) -> Record:
        """Read the save record of a version that is here."""
        return read_record(self.store.read("record", version))

    def layout(self, record: Record, leaves: list[Leaf]) -> Layout | None:
        """Read the layout of a version; None where it has none, or a device of an earlier release fetched it."""
        id = record.objects.get("layout")
        return decode_layout(self.store.read("attachment", id), leaves) if id and self.store.has(id) else None

    def birth(self) -> dict[str, Any]:
        """Make a birth: what this device is, and the newest head that it has verified."""
        seen = self.seen
        return {
            "agent_version": f"{VERSION} (Python)",
            "profile": self.identity.profile,
            "runtime": f"Python {platform.python_version()}, {platform.system()} {platform.machine()}",
            "oldest_protocol": 1,
            "heads": [
                {
                    "line": name,
                    "sequence": line["sequence"],
                    "active_version_id": bytes.fromhex(line["active"] or ""),
                    "active_number": line["number"],
                }
                for name, line in self.values["lines"].items()
            ],
            "seen_journal_length": seen.length,
            "seen_journal_chain": seen.chain if seen.length > 0 else b"",
            "seen_journal_root": seen.root if seen.length > 0 else b"",
            "unreleased": sum(each["standing"] != "released" for each in self.values["outbox"].values()),
            "clock_ms": now_ms(),
            "clock_error_ms": -1,
            "generation": self.identity.generation,
        }


def now_ms() -> int:
    """Read this device's clock."""
    return time.time_ns() // 1_000_000

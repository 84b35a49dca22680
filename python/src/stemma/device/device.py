"""A device of a fleet: fetches what it is offered, verifies and runs it, and reports the models that it makes."""

from __future__ import annotations

import json
import os
import platform
import secrets
import ssl
import struct
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from stemma.device.enrolment import FILE
from stemma.device.history import NO_HEAD, Head, check_receipt, is_signed, next_head
from stemma.device.record import Record, encode_owner_map, owners_of, read_record
from stemma.device.session import Session, runtime
from stemma.device.store import Leaf, Store, decode_tree, encode_tree, read_json, root_of_leaves, write_durably
from stemma.device.transfers import BLOCK_BYTES, Download, Upload, Wanted
from stemma.device.wire import MAX_MESSAGE_BYTES, Message
from stemma.errors import StemmaError
from stemma.identities import canonical_json, object_id, tensor_hasher
from stemma.tensor_files import described, written_bytes

VERSION = "0.1.0"
STATE = "state.json"
BIRTH_SECONDS = 5.0
LASTING_SECONDS = 15 * 60.0
ANNOUNCE_SECONDS = 60.0
MAX_UPLOADS = 16
_RECEIPTS = ("recorded", "stored", "released")


@dataclass
class _Offer:
    line: str
    version: str
    record: Record
    staged: bool
    download: Download | None = None


class Enrolled:
    """The identity of an enrolled device, from its home."""

    def __init__(self, home: Path) -> None:
        file = read_json(home / FILE, "ENROLMENT_INVALID")
        try:
            self.fleet, self.device, self.root = str(file["fleet"]), str(file["device"]), str(file["root"])
            self.generation = int(file["generation"])
            self.addresses = [str(each) for each in file["mqtt"]]
            self.lines = [str(each) for each in file["lines"]]
            self.profile = str(file["profile"])
            self.server_key = bytes.fromhex(file["serverPublicKey"])
            self.key = Ed25519PrivateKey.from_private_bytes(bytes.fromhex(file["deviceSeed"]))
            self._pem = {name: str(file[name]) for name in ("certificate", "connectionKey")}
            self._authorities = "".join(file["authorities"])
        except (KeyError, TypeError, ValueError) as error:
            raise StemmaError("ENROLMENT_INVALID", f"{home / FILE} is damaged: {error}. Enrol again.") from error
        self._home = home

    def tls(self) -> ssl.SSLContext:
        """Give a context that trusts the server's authority alone, whatever the host is called."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.load_verify_locations(cadata=self._authorities)
        # Python reads a certificate from a file only.
        path = self._home / "connection.pem"
        write_durably(path, (self._pem["certificate"] + "\n" + self._pem["connectionKey"]).encode("ascii"))
        context.load_cert_chain(path)
        return context


class Device:
    """One home of one device. Its methods are for one thread."""

    def __init__(self, home: str | os.PathLike[str], on_switch: Callable[[str, Path], None] | None = None) -> None:
        self._home = Path(home)
        self._identity = Enrolled(self._home)
        self._store = Store(self._home)
        self._on_switch = on_switch
        empty: dict[str, Any] = {"format": 1, "session": 0, "accepted": 0, "head": None, "lines": {}, "outbox": {}}
        exists = (self._home / STATE).exists()
        self._state = read_json(self._home / STATE, "HOME_DAMAGED") if exists else empty
        self._session: Session | None = None
        self._offers: dict[str, _Offer] = {}
        self._uploads: dict[str, Upload] = {}
        self._wants: dict[str, list[Message]] = {}
        self._is_believed = False
        self._born = self._announced = 0.0
        self._window = 8
        self.problems: list[StemmaError] = []
        """The newest of what went wrong, at most a hundred."""

    def connect(self, timeout: float = 60.0) -> None:
        """Open a session, and wait until the server has proven its history."""
        self._state["session"] += 1
        self._keep_state()
        self._session = Session(self._identity, self._state["session"], self._state["accepted"])
        self._is_believed = False
        self._session.open()
        self._state["accepted"] = self._state["session"]
        self._keep_state()
        self._send_birth()
        self.wait(lambda: self._is_believed, timeout)

    def close(self) -> None:
        """End the session; what is not reported stays in the outbox."""
        if self._session is not None:
            self._session.close()
        self._session = None
        for offer in self._offers.values():
            if offer.download is not None:
                offer.download.discard()
        self._offers.clear()
        self._uploads.clear()

    def run(self, is_over: Callable[[], bool]) -> None:
        """Serve until told to stop; connects again with growing pauses."""
        pause = 1.0
        while not is_over():
            try:
                self.connect()
                pause = 1.0
                while not is_over() and self.step(1.0):
                    pass
            except StemmaError as error:
                self._note(error)
            self.close()
            end = time.monotonic() + pause * (1 + secrets.randbelow(1000) / 1000)
            while not is_over() and time.monotonic() < end:
                time.sleep(0.1)
            pause = min(60.0, pause * 2)

    def wait(self, until: Callable[[], bool], timeout: float) -> None:
        """Serve until something is so."""
        deadline = time.monotonic() + timeout
        while not until():
            if time.monotonic() > deadline:
                raise StemmaError("TIMED_OUT", f"It was not so after {timeout:g} s. See `problems`, and wait again.")
            if not self.step(0.1):
                why = self._session.why_ended if self._session is not None else "not connected"
                raise StemmaError("SERVER_UNREACHABLE", f"The session ended: {why}. Connect again.")

    def step(self, timeout: float) -> bool:
        """Wait for a message and act on it; False where there is no session any more."""
        session = self._session
        if session is None or session.why_ended != "":
            return False
        received = session.receive(timeout)
        if received is not None:
            topic, envelope = received
            try:
                self._act(topic, envelope)
            except StemmaError as error:
                self._note(error)
        self._on_time(time.monotonic())
        return True

    def current(self, line: str) -> Path | None:
        """Name the folder of the version that a line runs (docs/reference/current.md)."""
        link = self._home / "current" / line
        return link.resolve() if link.is_symlink() else None

    def standing(self, version: str) -> str | None:
        """Tell how far a version of this device is: pending, recorded, stored, released or refused."""
        entry = self._state["outbox"].get(version)
        return None if entry is None else str(entry["standing"])

    def save(self, line: str, tensors: Mapping[str, Any], metrics: Mapping[str, Any] | None = None) -> str:
        """
        Save a model that was trained from what the line runs, and give its version id. It is durable then.

        It has the tensors of its base, by name. It is reported in the next session, and runs once that is recorded.
        """
        own = self._line(line)
        base = own["active"]
        if base is None:
            raise StemmaError("BASE_MISSING", f"The line {line} runs no model yet. Assign one to this device.")
        record = self._record(base)
        before = decode_tree(self._store.read("tree", record.objects["tree"]))
        if [leaf.path for leaf in before] != sorted(tensors, key=[leaf.path for leaf in before].index) or len(
            tensors
        ) != len(before):
            raise StemmaError("ARCHITECTURE_MISMATCH", f"The model has other tensors than its base {base[:12]}.")
        leaves = [self._kept_tensor(leaf, tensors[leaf.path]) for leaf in before]
        if leaves == before:
            return str(base)
        owners = owners_of(self._store.read("owner-map", record.objects["ownerMap"]), len(leaves), base)
        small = {
            "tree": encode_tree(leaves, record.architecture is not None),
            "names": self._store.read("names", record.objects["names"]),
            "ownerMap": encode_owner_map(
                [None if new != old else owner for new, old, owner in zip(leaves, before, owners, strict=True)]
            ),
            "environment": canonical_json({"fields": _environment(), "format": 1}),
        }
        if metrics:
            small["metadata"] = canonical_json({"fields": dict(metrics), "format": 1})
        own["sequence"] += 1
        made = Record.child(
            record, root_of_leaves(leaves), small, self._identity.fleet, self._identity.device, line, own["sequence"]
        )
        for name, content in small.items():
            self._store.put(made.objects[name], content)
        self._store.put(made.version, made.content)
        self._store.install(made.version, leaves)
        self._state["outbox"][made.version] = {"line": line, "standing": "pending"}
        self._keep_state()
        self._announced = 0.0
        return made.version

    def _kept_tensor(self, leaf: Leaf, tensor: Any) -> Leaf:
        dtype, shape, _ = described(leaf.path, tensor)
        if (dtype, tuple(shape)) != (leaf.dtype, leaf.shape):
            raise StemmaError("ARCHITECTURE_MISMATCH", f"{leaf.path} has another type or shape than in its base.")
        content = bytes(written_bytes(tensor))
        hasher = tensor_hasher(dtype, shape)
        hasher.update(content)
        self._store.put(hasher.hexdigest(), content)
        return Leaf(leaf.path, dtype, leaf.shape, hasher.hexdigest())

    # What is sent.

    def _send_birth(self) -> None:
        assert self._session is not None  # noqa: S101
        seen = self._seen
        self._born = time.monotonic()
        heads = [
            {
                "line": name,
                "sequence": line["sequence"],
                "active_version_id": bytes.fromhex(line["active"] or ""),
                "active_number": line["number"],
            }
            for name, line in self._state["lines"].items()
        ]
        birth: Message = {
            "agent_version": f"{VERSION} (Python)",
            "profile": self._identity.profile,
            "runtime": runtime(),
            "oldest_protocol": 1,
            "heads": heads,
            "unreleased": sum(each["standing"] != "released" for each in self._state["outbox"].values()),
            "clock_ms": time.time_ns() // 1_000_000,
            "clock_error_ms": -1,
            "generation": self._identity.generation,
        }
        if seen.length > 0:
            birth |= {
                "seen_journal_length": seen.length,
                "seen_journal_chain": seen.chain,
                "seen_journal_root": seen.root,
            }
        self._session.send_birth(birth)

    def _on_time(self, now: float) -> None:
        pause = LASTING_SECONDS if self._is_believed else BIRTH_SECONDS
        if now - self._born > pause:
            self._send_birth()
        if not self._is_believed:
            return
        for version, offer in list(self._offers.items()):
            try:
                self._move(version, offer, now)
            except StemmaError as error:
                self._drop(version, error)
        if now - self._announced > ANNOUNCE_SECONDS:
            self._announced = now
            for version, entry in self._state["outbox"].items():
                if entry["standing"] == "pending":
                    self._announce(version)
            for line in self._state["lines"]:
                self._report_active(line)

    def _announce(self, version: str) -> None:
        record = self._record(version)
        objects: list[Message] = []
        left = MAX_MESSAGE_BYTES - 1024 - len(record.content)
        for kind, id in record.small_objects():
            content = self._store.read(kind, id)
            if len(content) + 64 <= left:
                objects.append({"kind": kind, "data": content})
                left -= len(content) + 64
        leaves = decode_tree(self._store.read("tree", record.objects["tree"]))
        announce = {
            "record": record.content,
            "signature": self._identity.key.sign(b"stemma-announce-1\0" + bytes.fromhex(version)),
            "objects": objects,
            "tensor_bytes": sum(leaf.byte_length for leaf in leaves),
        }
        self._send("announce", announce)

    def _report_active(self, name: str) -> None:
        line = self._state["lines"][name]
        if line["number"] > line["reported"]:
            message = {
                "version_id": bytes.fromhex(line["active"]),
                "line": name,
                "at_ms": line["atMs"],
                "clock_error_ms": -1,
                "number": line["number"],
            }
            self._send("activated", message)

    def _send(self, body: str, message: Mapping[str, Any], correlation: str = "", topic: str = "up/words") -> None:
        if self._session is not None:
            self._session.send(body, message, correlation, topic)

    # What comes.

    def _act(self, topic: str, envelope: Message) -> None:
        body = envelope["body"]
        message = envelope[body]
        if body == "welcome":
            self._on_welcome(message)
        elif body == "refusal":
            self._on_refusal(message)
        elif body == "command":
            self._on_command(envelope)
        elif not self._is_believed:
            return
        elif body == "offer":
            if not envelope["stale"]:
                self._on_offer(message)
        elif body == "manifest":
            self._with_download(message["transfer"], lambda each: each.on_manifest(message, time.monotonic()))
        elif body == "block":
            self._with_download(topic.rpartition("/")[2], lambda each: each.on_block(message, time.monotonic()))
        elif body == "want":
            self._on_want(message)
        elif body == "block_request":
            self._on_request(message)
        elif body == "receipt":
            self._on_receipt(message)
        elif body == "activation_receipt" and message["line"] in self._state["lines"]:
            line = self._line(message["line"])
            line["reported"] = max(line["reported"], min(message["number"], line["number"]))
            self._keep_state()

    def _on_welcome(self, welcome: Message) -> None:
        head = next_head(self._identity.server_key, self._seen, welcome["head"], welcome["start"])
        if head is None:
            return
        self._keep_head(head)
        self._window = max(1, min(welcome["window"] or 8, 64))
        for known in welcome["known"]:
            if known["line"] in self._identity.lines:
                line = self._line(known["line"])
                line["sequence"] = max(line["sequence"], known["sequence"])
                line["reported"] = min(known["active_number"], line["number"])
        self._is_believed = True
        self._announced = 0.0

    def _on_offer(self, message: Message) -> None:
        one = self._identity
        signed = b"stemma-stage-1\0" if message["staged"] else b"stemma-offer-2\0"
        signed += b"\0".join(each.encode("utf-8") for each in (one.fleet, one.device, message["line"])) + b"\0"
        signed += struct.pack("<I", one.generation) + message["version_id"]
        version = message["version_id"].hex()
        if message["generation"] != one.generation or not is_signed(one.server_key, signed, message["signature"]):
            raise StemmaError(
                "SIGNATURE_INVALID", "An offer is not signed by the server for this device. It is ignored."
            )
        if message["line"] not in one.lines:
            raise StemmaError("LINE_UNKNOWN", f"The server offers a model for the line {message['line']}, not of here.")
        record = read_record(message["record"])
        if record.version != version:
            raise StemmaError(
                "RECORD_INVALID", f"The record of the offered {version[:12]} is another's. It is ignored."
            )
        named = {id: kind for kind, id in record.small_objects()}
        for each in message["objects"]:
            id = object_id(each["kind"], each["data"])
            if named.get(id) == each["kind"]:
                self._store.put(id, each["data"])
        self._store.put(version, record.content)
        known = self._offers.get(version)
        if known is not None:
            known.staged = message["staged"]
        else:
            self._offers[version] = _Offer(message["line"], version, record, message["staged"])

    def _move(self, version: str, offer: _Offer, now: float) -> None:
        """Fetch what is lacking of an offered version, its small objects first; then install it."""
        if offer.download is not None:
            if not offer.download.is_complete:
                for request in offer.download.requests(self._window, now):
                    self._send("block_request", request)
                return
            offer.download.keep()
            offer.download.discard()
            self._send("transfer_done", {"transfer": offer.download.transfer})
            offer.download = None
        wanted = [Wanted(kind, id, None) for kind, id in offer.record.needed_objects() if not self._store.has(id)]
        if not wanted:
            leaves = decode_tree(self._store.read("tree", offer.record.objects["tree"]))
            if root_of_leaves(leaves) != offer.record.root:
                raise StemmaError("ROOT_MISMATCH", f"The tensors of the offered {version[:12]} are others. Ignored.")
            unique = {leaf.id: leaf for leaf in leaves if not self._store.has(leaf.id)}
            wanted = [Wanted("tensor", leaf.id, leaf.byte_length, leaf.dtype, leaf.shape) for leaf in unique.values()]
            if not wanted:
                del self._offers[version]
                self._store.install(version, leaves)
                if not offer.staged:
                    self._switch(offer.line, version)
                return
        transfer = secrets.token_hex(16)
        offer.download = Download(self._store, transfer, wanted, now)
        self._fetch(version, transfer, wanted)

    def _fetch(self, version: str, transfer: str, wanted: list[Wanted]) -> None:
        size = 900
        parts = [wanted[i : i + size] for i in range(0, len(wanted), size)]
        for number, part in enumerate(parts):
            refs = [
                {"kind": each.kind, "id": bytes.fromhex(each.id), "byte_length": each.byte_length or 0} for each in part
            ]
            fetch: Message = {"version_id": bytes.fromhex(version), "transfer": transfer, "objects": refs}
            fetch |= {"block_bytes": BLOCK_BYTES, "part": number, "parts": len(parts)}
            self._send("fetch", fetch)

    def _with_download(self, transfer: str, work: Callable[[Download], None]) -> None:
        for version, offer in list(self._offers.items()):
            if offer.download is not None and offer.download.transfer == transfer:
                try:
                    work(offer.download)
                except StemmaError as error:
                    self._drop(version, error)

    def _drop(self, version: str, error: StemmaError) -> None:
        offer = self._offers.pop(version)
        if offer.download is not None:
            offer.download.discard()
        self._note(error)
        event = {"name": "offer-refused", "text": str(error), "line": offer.line, "version_id": bytes.fromhex(version)}
        self._send("event", event)

    def _switch(self, name: str, version: str) -> None:
        line = self._line(name)
        if line["active"] == version:
            return
        self._store.switch(name, version)
        line |= {"active": version, "number": line["number"] + 1, "atMs": time.time_ns() // 1_000_000}
        self._keep_state()
        if self._on_switch is not None:
            self._on_switch(name, self._home / "versions" / version)
        self._report_active(name)

    def _on_want(self, want: Message) -> None:
        version = want["version_id"].hex()
        parts = self._wants.setdefault(want["transfer"], []) if want["parts"] <= 64 else []
        parts.append(want)
        if len(parts) < max(1, want["parts"]):
            return
        self._wants.pop(want["transfer"], None)
        if self.standing(version) is None or want["reason"] == 2:
            refusal = {
                "code": "BASE_MISSING",
                "message": "This device does not have it.",
                "version_id": want["version_id"],
            }
            self._send("refusal", {**refusal, "transfer": want["transfer"]})
            return
        parts.sort(key=lambda each: each["part"])
        leaves = decode_tree(self._store.read("tree", self._record(version).objects["tree"]))
        indices = [index for part in parts for index in part["tensor_indices"]]
        ids = [leaves[index].id for index in indices if index < len(leaves)]
        ids += [each["id"].hex() for part in parts for each in part["objects"]]
        if len(self._uploads) >= MAX_UPLOADS:
            self._uploads.pop(next(iter(self._uploads)))
        files = [self._store.path(id) for id in ids]
        self._uploads[want["transfer"]] = Upload(want["transfer"], files, want["block_bytes"])

    def _on_request(self, request: Message) -> None:
        upload = self._uploads.get(request["transfer"])
        if upload is None:
            return
        for part in request["manifest_parts"][:64]:
            manifest = upload.manifest(part)
            if manifest is not None:
                self._send("manifest", manifest)
        for index in request["blocks"][:64]:
            block = upload.block(index)
            if block is not None:
                self._send("block", block, topic=f"block/up/{request['transfer']}")

    def _on_receipt(self, receipt: Message) -> None:
        one = self._identity
        version = receipt["version_id"].hex()
        head = next_head(one.server_key, self._seen, receipt["head"], receipt["start"])
        if head is None:
            self._send_birth()
            return
        mine = (receipt["fleet"], receipt["device"], receipt["generation"]) == (one.fleet, one.device, one.generation)
        entry = self._state["outbox"].get(version)
        if not mine or entry is None or receipt["kind"] >= len(_RECEIPTS):
            raise StemmaError("RECEIPT_INVALID", "A receipt is for another device or version. It is ignored.")
        check_receipt(one.server_key, receipt, head)
        self._keep_head(head)
        standing = _RECEIPTS[receipt["kind"]]
        before = entry["standing"]
        if before not in _RECEIPTS or _RECEIPTS.index(before) < receipt["kind"]:
            entry["standing"] = standing
            self._keep_state()
        if before not in _RECEIPTS and self._line(entry["line"])["active"] == self._record(version).bases[0]:
            self._switch(entry["line"], version)

    def _on_refusal(self, refusal: Message) -> None:
        version = refusal["version_id"].hex()
        entry = self._state["outbox"].get(version)
        if entry is not None and not refusal["retry"] and entry["standing"] == "pending":
            entry["standing"] = "refused"
            self._keep_state()
        for offered, offer in list(self._offers.items()):
            if offered == version or (offer.download and offer.download.transfer == refusal["transfer"] != ""):
                self._drop(offered, StemmaError(refusal["code"], refusal["message"]))
                return
        self._note(StemmaError(refusal["code"][:64], refusal["message"][:4096]))

    def _on_command(self, envelope: Message) -> None:
        """Answer commands; this client measures nothing and trains nothing by itself."""
        name = envelope["command"]["name"]
        code, value = "USAGE", {"message": f"This client does not know the command {name[:40]}."}
        if not self._is_believed:
            code, value = "HISTORY_UNPROVEN", {"message": "The server has not proven its history."}
        elif envelope["stale"]:
            code, value = "TIMED_OUT", {"message": "The command came too late or out of order. Send it again."}
        elif name == "gates":
            why = "this client measures nothing"
            code, value = "", {"losses": why, "outputs": why, "live": why, "measuredBy": "nothing"}
        elif name == "evaluate":
            code, value = "DATASET_EMPTY", {"message": "This client has no held-out samples."}
        self._send("command_result", {"code": code, "json": json.dumps(value)}, envelope["correlation"])

    # State.

    @property
    def _seen(self) -> Head:
        head = self._state["head"]
        if head is None:
            return NO_HEAD
        return Head(head["length"], bytes.fromhex(head["chain"]), bytes.fromhex(head["root"]))

    def _keep_head(self, head: Head) -> None:
        self._state["head"] = {"length": head.length, "chain": head.chain.hex(), "root": head.root.hex()}
        self._keep_state()

    def _line(self, name: str) -> dict[str, Any]:
        if name not in self._identity.lines:
            raise StemmaError("LINE_UNKNOWN", f"This device does not have the line {name}. Enrol it with that line.")
        empty = {"active": None, "number": 0, "reported": 0, "sequence": 0, "atMs": 0}
        line: dict[str, Any] = self._state["lines"].setdefault(name, empty)
        return line

    def _record(self, version: str) -> Record:
        return read_record(self._store.read("record", version))

    def _keep_state(self) -> None:
        write_durably(self._home / STATE, json.dumps(self._state).encode("utf-8"))

    def _note(self, error: StemmaError) -> None:
        self.problems.append(error)
        del self.problems[:-100]


def _environment() -> dict[str, str]:
    return {
        "backend": "external",
        "stemma": f"{VERSION} (Python)",
        "os": platform.system().lower(),
        "arch": platform.machine(),
        "python": platform.python_version(),
    }

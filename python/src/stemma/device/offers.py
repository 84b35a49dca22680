"""Offered models: verified, fetched, installed, and run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from stemma.device.record import Record, read_record
from stemma.device.releases import Releases
from stemma.device.space import Space
from stemma.device.state import DeviceState
from stemma.device.store import Leaf, decode_tree, disk_error, root_of_leaves
from stemma.device.transfers import BLOCK_BYTES, Download, Wanted
from stemma.device.wire import Message
from stemma.errors import StemmaError
from stemma.identities import object_id

REFS_OF_MESSAGE = 900
# After these, what has come of a transfer is removed: it is wrong, or the disk has no space.
_USELESS = ("TRANSFER_MANIFEST_INVALID", "BLOCK_HASH_MISMATCH", "OBJECT_HASH_MISMATCH", "FILE_FAILED", "DISK_FULL")


class Send(Protocol):
    """Sends a message, where there is a session."""

    def __call__(self, body: str, message: Mapping[str, Any], correlation: str = "", topic: str = "up/words") -> None:
        """Send it."""


@dataclass
class _Offer:
    line: str
    record: Record
    is_staged: bool
    download: Download | None = None


class Offers:
    """What the server offers to this device, until it is installed."""

    def __init__(
        self, state: DeviceState, releases: Releases, space: Space, send: Send, note: Callable[[StemmaError], None]
    ) -> None:
        self._state = state
        self._space = space
        space.fetched, space.transfers = self.records, self.transfers
        self._releases = releases
        self._send = send
        self._note = note
        self._open: dict[str, _Offer] = {}
        self.on_switch: Callable[[str, Path], None] | None = None
        self.window = 8

    def take(self, message: Message) -> None:
        """Begin with an offer that this device may act on."""
        version = message["version_id"].hex()
        if not self._state.identity.is_offer_signed(message):
            raise StemmaError("SIGNATURE_INVALID", "An offer is not signed by the server for this device. Ignored.")
        self._state.line(message["line"])
        record = read_record(message["record"])
        if record.version != version:
            raise StemmaError("RECORD_INVALID", f"The record of the offered {version[:12]} is another's. Ignored.")
        known = self._open.setdefault(version, _Offer(message["line"], record, message["staged"]))
        known.is_staged = message["staged"]
        self._guarded(version, lambda: self._take(version, record, message))

    def _take(self, version: str, record: Record, message: Message) -> None:
        self._releases.require_offered(message, record, self._is_own(version), self._state.time.present_ms)
        named = {id: kind for kind, id in record.small_objects()}
        for each in message["objects"]:
            id = object_id(each["kind"], each["data"])
            if named.get(id) == each["kind"]:
                self._state.store.put(id, each["data"])
        self._state.store.put(version, record.content)

    def _is_own(self, version: str) -> bool:
        return self._state.entry(version) is not None

    def move(self, now: float) -> None:
        """Go on with every offer."""
        for version, offer in list(self._open.items()):
            self._guarded(version, lambda version=version, offer=offer: self._move(version, offer, now))  # type: ignore[misc]

    def on_manifest(self, message: Message, now: float) -> None:
        """Take a part of a manifest."""
        self._with_download(message["transfer"], lambda download: download.on_manifest(message, now))

    def on_block(self, transfer: str, message: Message, now: float) -> None:
        """Take a block."""
        self._with_download(transfer, lambda download: download.on_block(message, now))

    def refused(self, refusal: Message) -> bool:
        """Give up what the server does not send; False where it is about something else."""
        for version, offer in list(self._open.items()):
            transfer = "" if offer.download is None else offer.download.transfer
            if refusal["version_id"].hex() == version or refusal["transfer"] == transfer != "":
                self._drop(version, StemmaError(refusal["code"][:64], refusal["message"][:4096]))
                return True
        return False

    def clear(self) -> None:
        """Forget all offers: the server makes them again in the next session, and their transfers go on."""
        self._open.clear()

    def switch(self, name: str, version: str) -> None:
        """Run another version on a line, and report that."""
        line = self._state.line(name)
        if line["active"] == version:
            return
        self._state.store.switch(name, version)
        self._state.switched(name, version)
        self._state.keep()
        if self.on_switch is not None:
            self.on_switch(name, self._state.home / "versions" / version)
        self.report(name)

    def report(self, name: str) -> None:
        """Report what a line runs, where the server does not know it."""
        line = self._state.line(name)
        if line["number"] > line["reported"]:
            activated = {"version_id": bytes.fromhex(line["active"]), "line": name, "at_ms": line["atMs"]}
            self._send("activated", {**activated, "clock_error_ms": -1, "number": line["number"]})

    def _move(self, version: str, offer: _Offer, now: float) -> None:
        """Fetch what is lacking, the small objects first; then install the version."""
        store = self._state.store
        if offer.download is not None:
            if not offer.download.is_complete:
                for request in offer.download.requests(self.window, now):
                    self._send("block_request", request)
                return
            offer.download.keep()
            offer.download.discard()
            self._send("transfer_done", {"transfer": offer.download.transfer})
            offer.download = None
        leaves: list[Leaf] = []
        wanted = [Wanted(kind, id, None) for kind, id in offer.record.needed_objects() if not store.has(id)]
        if not wanted:
            leaves = decode_tree(store.read("tree", offer.record.objects["tree"]))
            if root_of_leaves(leaves) != offer.record.root:
                raise StemmaError("ROOT_MISMATCH", f"The tensors of the offered {version[:12]} are others. Ignored.")
            unique = {leaf.id: leaf for leaf in leaves if not store.has(leaf.id)}
            wanted = [Wanted("tensor", leaf.id, leaf.byte_length, leaf.dtype, leaf.shape) for leaf in unique.values()]
            if not wanted:
                # What was released may have been revoked meanwhile.
                self._releases.require(version, self._is_own(version), self._state.time.present_ms)
                self._install(version, offer, leaves)
                return
        offer.download = Download(store, version, wanted, now)
        if leaves:
            self._require_space(version, offer.record, leaves, wanted)
        self._fetch(version, offer.download.transfer, wanted)

    def _require_space(self, version: str, record: Record, leaves: list[Leaf], wanted: list[Wanted]) -> None:
        lacking = sum(each.byte_length or 0 for each in wanted)
        layout = self._state.layout(record, leaves)
        installed = sum(leaf.byte_length for leaf in leaves) + (0 if layout is None else layout.byte_length)
        # What comes, the objects made of it, and the installed files. What comes is removed before those are written.
        needed = max(2 * lacking, lacking + installed)
        arrived = self._state.store.bytes_of_transfer(Download.name_of(version, wanted))
        self._space.require(needed - arrived, f"The offered model {version[:12]}")

    def _install(self, version: str, offer: _Offer, leaves: list[Leaf]) -> None:
        store, line = self._state.store, self._state.line(offer.line)
        names, layout = store.read("names", offer.record.objects["names"]), self._state.layout(offer.record, leaves)
        store.install(offer.record, leaves, names, layout)
        if version not in line["versions"]:
            line["versions"].append(version)
        if offer.is_staged:
            line["staged"] = version
        self._state.keep()
        del self._open[version]
        if not offer.is_staged:
            self.switch(offer.line, version)
        self._space.tidy_noted(self._note)

    def records(self) -> list[Record]:
        """Give the records of the versions that are being fetched."""
        return [offer.record for offer in self._open.values()]

    def transfers(self) -> set[str]:
        """Name the transfers that go on."""
        return {offer.download.transfer for offer in self._open.values() if offer.download is not None}

    def _fetch(self, version: str, transfer: str, wanted: list[Wanted]) -> None:
        parts = [wanted[i : i + REFS_OF_MESSAGE] for i in range(0, len(wanted), REFS_OF_MESSAGE)]
        for number, part in enumerate(parts):
            refs = [
                {"kind": each.kind, "id": bytes.fromhex(each.id), "byte_length": each.byte_length or 0} for each in part
            ]
            fetch: Message = {"version_id": bytes.fromhex(version), "transfer": transfer, "objects": refs}
            self._send("fetch", {**fetch, "block_bytes": BLOCK_BYTES, "part": number, "parts": len(parts)})

    def _with_download(self, transfer: str, work: Callable[[Download], None]) -> None:
        for version, offer in list(self._open.items()):
            download = offer.download
            if download is not None and download.transfer == transfer:
                self._guarded(version, lambda download=download: work(download))  # type: ignore[misc]

    def _guarded(self, version: str, work: Callable[[], None]) -> None:
        try:
            work()
        except StemmaError as error:
            self._drop(version, error)
        except OSError as error:
            self._drop(version, disk_error(error))

    def _drop(self, version: str, error: StemmaError) -> None:
        self._note(error)
        offer = self._open.pop(version, None)
        if offer is None:
            # It is installed already.
            return
        if offer.download is not None and error.code in _USELESS:
            offer.download.discard()
        event = {"name": "offer-failed", "text": str(error), "line": offer.line}
        self._send("event", {**event, "version_id": bytes.fromhex(version)})

"""Models that this device makes: saved, announced, sent as the server wants them, and confirmed by its receipts."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from typing import Any

from stemma.device.history import check_receipt
from stemma.device.layouts import decode_layout, inherited
from stemma.device.offers import Send
from stemma.device.record import Record, encode_owner_map, owners_of
from stemma.device.space import Space
from stemma.device.state import STANDINGS, VERSION, DeviceState
from stemma.device.store import Leaf, decode_tree, encode_tree, is_kept_file, root_of_leaves
from stemma.device.transfers import Upload
from stemma.device.wire import MAX_MESSAGE_BYTES, Message
from stemma.errors import StemmaError
from stemma.identities import canonical_json, tensor_hasher
from stemma.tensor_files import described, written_bytes

MAX_UPLOADS = 16
MAX_PARTS = 64
_BASE_WANTED = 2


class Reports:
    """The outbox of a device."""

    def __init__(self, state: DeviceState, space: Space, send: Send) -> None:
        self._state = state
        self._space = space
        self._send = send
        self._uploads: dict[str, Upload] = {}
        self._wants: dict[str, dict[int, Message]] = {}

    def save(self, line: str, tensors: Mapping[str, Any], metrics: Mapping[str, Any] | None) -> str:
        """Keep a model that was trained from what the line runs."""
        store, own = self._state.store, self._state.line(line)
        base = own["active"]
        if base is None:
            raise StemmaError("BASE_MISSING", f"The line {line} runs no model yet. Assign one to this device.")
        record = self._state.record(base)
        before = decode_tree(store.read("tree", record.objects["tree"]))
        if is_kept_file(before):
            raise StemmaError("ARCHITECTURE_MISMATCH", f"The line {line} delivers a file, and only tensors are saved.")
        if {leaf.path for leaf in before} != set(tensors):
            raise StemmaError("ARCHITECTURE_MISMATCH", f"The model has other tensors than its base {base[:12]}.")
        # The tensors that changed, at most all, and the installed files.
        size, layout = sum(leaf.byte_length for leaf in before), self._state.layout(record, before)
        self._space.require(2 * size + (0 if layout is None else layout.byte_length), f"The model of {line}")
        leaves = [self._kept_tensor(leaf, tensors[leaf.path]) for leaf in before]
        if leaves == before:
            return str(base)
        owners = owners_of(store.read("owner-map", record.objects["ownerMap"]), len(leaves), base)
        owned = [None if leaf != old else owner for leaf, old, owner in zip(leaves, before, owners, strict=True)]
        small = {
            "tree": encode_tree(leaves, record.architecture is not None),
            "names": store.read("names", record.objects["names"]),
            "ownerMap": encode_owner_map(owned),
            "environment": canonical_json({"fields": _environment(), "format": 1}),
        }
        if layout is not None:
            small["layout"] = inherited(layout, store.files(leaves))
            layout = decode_layout(small["layout"], leaves)
        if metrics:
            small["metadata"] = canonical_json({"fields": dict(metrics), "format": 1})
        own["sequence"] += 1
        identity = self._state.identity
        place = {"fleet": identity.fleet, "device": identity.device, "line": line, "sequence": own["sequence"]}
        made = Record.child(record, root_of_leaves(leaves), small, place)
        for name, content in small.items():
            store.put(made.objects[name], content)
        store.put(made.version, made.content)
        store.install(made, leaves, small["names"], layout)
        self._state.values["outbox"][made.version] = {"line": line, "standing": "pending"}
        own["versions"].append(made.version)
        self._state.keep()
        return made.version

    def _kept_tensor(self, leaf: Leaf, tensor: Any) -> Leaf:
        dtype, shape, _ = described(leaf.path, tensor)
        if (dtype, tuple(shape)) != (leaf.dtype, leaf.shape):
            raise StemmaError("ARCHITECTURE_MISMATCH", f"{leaf.path} has another type or shape than in its base.")
        content = bytes(written_bytes(tensor))
        hasher = tensor_hasher(dtype, shape)
        hasher.update(content)
        self._state.store.put(hasher.hexdigest(), content)
        return Leaf(leaf.path, dtype, leaf.shape, hasher.hexdigest())

    def announce(self) -> None:
        """Announce what is not recorded yet; announcing it again is harmless."""
        for version, entry in self._state.values["outbox"].items():
            if entry["standing"] == "pending":
                self._announce(version)

    def _announce(self, version: str) -> None:
        store, record = self._state.store, self._state.record(version)
        objects: list[Message] = []
        left = MAX_MESSAGE_BYTES - 1024 - len(record.content)
        for kind, id in record.small_objects():
            content = store.read(kind, id)
            if len(content) + 64 <= left:
                objects.append({"kind": kind, "data": content})
                left -= len(content) + 64
        leaves = decode_tree(store.read("tree", record.objects["tree"]))
        announce = {
            "record": record.content,
            "signature": self._state.identity.key.sign(b"stemma-announce-1\0" + bytes.fromhex(version)),
            "objects": objects,
            "tensor_bytes": sum(leaf.byte_length for leaf in leaves),
        }
        self._send("announce", announce)

    def on_want(self, want: Message) -> None:
        """Prepare the stream that the server wants, once all parts of the want are here."""
        transfer, version = want["transfer"], want["version_id"].hex()
        count = max(1, want["parts"])
        if count > MAX_PARTS or len(self._wants) > MAX_UPLOADS:
            self._wants.clear()
            return
        parts = self._wants.setdefault(transfer, {})
        parts[want["part"]] = want
        if len(parts) < count:
            return
        del self._wants[transfer]
        if self._state.entry(version) is None or want["reason"] == _BASE_WANTED:
            refusal = {"code": "BASE_MISSING", "message": "This device does not have it.", "transfer": transfer}
            self._send("refusal", {**refusal, "version_id": want["version_id"]})
            return
        leaves = decode_tree(self._state.store.read("tree", self._state.record(version).objects["tree"]))
        ordered = [parts[number] for number in sorted(parts)]
        ids = [leaves[index].id for part in ordered for index in part["tensor_indices"] if index < len(leaves)]
        ids += [each["id"].hex() for part in ordered for each in part["objects"]]
        if len(self._uploads) >= MAX_UPLOADS:
            self._uploads.pop(next(iter(self._uploads)))
        self._uploads[transfer] = Upload(transfer, [self._state.store.path(id) for id in ids], want["block_bytes"])

    def on_request(self, request: Message) -> None:
        """Send the blocks and parts of the manifest that the server asks for."""
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

    def on_receipt(self, receipt: Message, head: Any) -> str | None:
        """Take a receipt with its verified head; gives the version where it is recorded now for the first time."""
        one, version = self._state.identity, receipt["version_id"].hex()
        mine = (receipt["fleet"], receipt["device"], receipt["generation"]) == (one.fleet, one.device, one.generation)
        entry = self._state.entry(version)
        if not mine or entry is None or receipt["kind"] >= len(STANDINGS):
            raise StemmaError("RECEIPT_INVALID", "A receipt is for another device or version. It is ignored.")
        check_receipt(one.server_key, receipt, head)
        before, is_first = entry["standing"], "position" not in entry
        if before not in STANDINGS or STANDINGS.index(before) < receipt["kind"]:
            entry |= {"standing": STANDINGS[receipt["kind"]], "position": receipt["position"]}
        forgotten = self._state.values.get("forgotten", {})
        for each in [each for each, lost in forgotten.items() if lost["position"] < receipt["backed_up_to"]]:
            # A backup of the server has it: no restore loses it.
            del forgotten[each]
        self._state.keep_head(head)
        return version if is_first and before not in STANDINGS else None

    def refused(self, refusal: Message) -> None:
        """Note that the server does not take a version; with `retry` it is announced again."""
        entry = self._state.entry(refusal["version_id"].hex())
        if entry is not None and not refusal["retry"] and entry["standing"] == "pending":
            entry["standing"] = "refused"
            self._state.keep()

    def clear(self) -> None:
        """Forget what an ended session wanted."""
        self._uploads.clear()
        self._wants.clear()


def _environment() -> dict[str, str]:
    return {
        "backend": "external",
        "stemma": f"{VERSION} (Python)",
        "os": platform.system().lower(),
        "arch": platform.machine(),
        "python": platform.python_version(),
    }

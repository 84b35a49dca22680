"""The server's journal as a device sees it: signed heads, each proven to continue the one before (RFC 6962)."""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Sequence
from dataclasses import dataclass

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from stemma.device.wire import Message, text
from stemma.errors import StemmaError
from stemma.identities import short_hash


@dataclass(frozen=True)
class Head:
    """How long a journal is, and the root over its facts."""

    length: int
    chain: bytes
    root: bytes


NO_HEAD = Head(0, bytes(32), hashlib.sha256().digest())


def is_signed(public_key: bytes, message: bytes, signature: bytes) -> bool:
    """Check an Ed25519 signature."""
    try:
        Ed25519PublicKey.from_public_bytes(public_key).verify(signature, message)
    except (InvalidSignature, ValueError):
        return False
    return True


def next_head(server_key: bytes, seen: Head | None, message: Message | None, start: Message | None) -> Head | None:
    """
    Give the head of a welcome or a receipt, once it is signed and proven to continue the one that was seen.

    None: it continues another one, as where a message between was lost; a new birth asks again. Without `seen` only its
    signature is checked.
    """
    if message is None:
        raise rewritten("it names no head")
    head = Head(message["length"], message["chain"], message["root"])
    signed = b"stemma-head-1\0" + struct.pack("<Q", head.length) + head.chain + head.root
    if len(head.chain) != 32 or not is_signed(server_key, signed, message["signature"]):
        raise rewritten("its head is not signed by the server that this device knows")
    if seen is None or (head.length, head.root) == (seen.length, seen.root):
        return head
    if start is None:
        raise rewritten("its journal does not continue what this device has seen")
    if start["length"] != seen.length:
        return None
    if not is_consistent(seen, head, hashes_of(start["hashes"])):
        raise rewritten("its journal does not begin with what this device has seen")
    return head


def is_consistent(old: Head, new: Head, proof: Sequence[bytes]) -> bool:
    """Verify the proof of RFC 9162, section 2.1.4.2: that a log begins with an earlier one."""
    if old.length == 0:
        return old.root == NO_HEAD.root and not proof
    if old.length >= new.length:
        return old.length == new.length and old.root == new.root and not proof
    path = [old.root, *proof] if old.length & (old.length - 1) == 0 else list(proof)
    if not path:
        return False
    first, last = old.length - 1, new.length - 1
    while first & 1:
        first, last = first >> 1, last >> 1
    before = after = path[0]
    for node in path[1:]:
        if last == 0:
            return False
        if first & 1 or first == last:
            before, after = _node(node, before), _node(node, after)
            while first & 1 == 0 and first != 0:
                first, last = first >> 1, last >> 1
        else:
            after = _node(after, node)
        first, last = first >> 1, last >> 1
    return last == 0 and before == old.root and after == new.root


def is_included(head: Head, position: int, entry: bytes, proof: Sequence[bytes]) -> bool:
    """Verify the proof of RFC 9162, section 2.1.3.2: that a log has an entry at a position."""
    if position >= head.length:
        return False
    index, last = position, head.length - 1
    node = hashlib.sha256(b"\0" + entry).digest()
    for other in proof:
        if last == 0:
            return False
        if index & 1 or index == last:
            node = _node(other, node)
            while index & 1 == 0 and index != 0:
                index, last = index >> 1, last >> 1
        else:
            node = _node(node, other)
        index, last = index >> 1, last >> 1
    return last == 0 and node == head.root


def check_receipt(server_key: bytes, receipt: Message, head: Head) -> None:
    """Check that the server signed a receipt, and that the fact of the version is in the journal of its head."""
    signed = (
        b"stemma-receipt-2\0"
        + bytes([receipt["kind"] & 0xFF])
        + receipt["version_id"]
        + text(receipt["fleet"])
        + text(receipt["device"])
        + struct.pack("<IQQQ", *(receipt[name] for name in ("generation", "session", "position", "backed_up_to")))
        + text(receipt["name"])
        + struct.pack("<IB", receipt["version"], 1)
        + struct.pack("<Q", head.length)
        + head.chain
        + head.root
    )
    fact = receipt["fact"]
    if not is_signed(server_key, signed, receipt["signature"]) or fact is None:
        raise _invalid("its signature is not the server's, or it proves nothing")
    if fact["position"] != receipt["position"] or not is_included(
        head, fact["position"], fact["entry"], hashes_of(fact["hashes"])
    ):
        raise _invalid("its fact is not in the journal")
    try:
        value = json.loads(fact["entry"])
        named = value["versionId"]
        recorded = value["type"] == "recorded" and value["name"] == receipt["name"]
        recorded = recorded and value["version"] == receipt["version"]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise _invalid("its fact cannot be read") from error
    version = receipt["version_id"]
    if not recorded or named not in (version.hex(), short_hash(version.hex())):
        raise _invalid("its fact is about something else")


def hashes_of(data: bytes) -> list[bytes]:
    """Read hashes that follow each other."""
    if len(data) % 32 != 0 or len(data) > 64 * 1024:
        raise rewritten("a proof is malformed")
    return [data[i : i + 32] for i in range(0, len(data), 32)]


def _node(left: bytes, right: bytes) -> bytes:
    return hashlib.sha256(b"\1" + left + right).digest()


def rewritten(why: str) -> StemmaError:
    """Say that the server is not believed."""
    return StemmaError(
        "HISTORY_UNPROVEN",
        f"This device does not believe the server: {why}. Nothing that it sends is acted on. If it was put back to "
        "an older copy, declare that with `stemma journal declare-restore`; if not, somebody may be impersonating it.",
    )


def _invalid(why: str) -> StemmaError:
    return StemmaError("RECEIPT_INVALID", f"A receipt is not believed: {why}. It is ignored.")

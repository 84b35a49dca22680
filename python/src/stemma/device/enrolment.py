"""Enrolment with an invitation (docs/certificates.md): this device makes its keys, and gets a certificate for them."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from stemma.device.certificates import new_request, post_request, taken_answer
from stemma.device.history import is_signed
from stemma.device.state import ENROLMENT, OwnedFiles
from stemma.device.store import read_json, write_durably
from stemma.errors import StemmaError
from stemma.identities import canonical_json

WAITING = "enrolment-keys.json"
_TERMS = ("fleet", "device", "generation", "lines", "mqtt", "root", "authorities", "serverPublicKey")


def enrol_with(
    home: str | os.PathLike[str],
    invitation: str | os.PathLike[str] | Mapping[str, Any],
    certificate: tuple[str | os.PathLike[str], str | os.PathLike[str]] | None,
) -> None:
    """Enrol a device; its keys wait on the disk before they are used."""
    folder = Path(home)
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    terms = dict(invitation) if isinstance(invitation, Mapping) else read_json(Path(invitation), "ENROLMENT_INVALID")
    _check_invitation(terms)
    owned = None if certificate is None else OwnedFiles(*(Path(each).absolute() for each in certificate))
    if ("authority" in terms) != (owned is not None):
        wanted = f"demands a certificate of {terms['authority']}: name it" if owned is None else "demands none of yours"
        raise _invalid(f"it {wanted}")
    pair = None if owned is None else owned.read()
    if (folder / ENROLMENT).exists():
        raise StemmaError("ENROLMENT_INVALID", f"{folder} is enrolled already. Choose another home for another device.")
    keys = _waiting_keys(folder, terms, pair)
    request = {"kind": "stemma-certificate-request", "format": 1, "request": keys["request"], "invitation": terms}
    request |= {} if pair is None else {"owned": pair[0]}
    # The server signed that it was this time when it invited the device.
    answer = post_request(terms["http"], "".join(terms["authorities"]), request, lambda: float(terms["issuedAtMs"]))
    enrolment = {name: terms[name] for name in (*_TERMS, "http")} | {
        "deviceSeed": keys["deviceSeed"],
        "profile": terms.get("profile", "generic"),
        # Pinned: whoever has the server later can ask for nothing less.
        "releases": terms.get("releases"),
        **taken_answer(answer, terms["serverPublicKey"], keys),
    }
    if owned is not None:
        # The owner's key stays in the owner's file.
        del enrolment["connectionKey"], enrolment["certificate"], enrolment["notAfterMs"]
        enrolment["ownerCertificate"] = {"file": str(owned.file), "key": str(owned.key)}
    write_durably(folder / ENROLMENT, json.dumps(enrolment).encode("utf-8"))
    (folder / WAITING).unlink(missing_ok=True)


def _check_invitation(terms: Mapping[str, Any]) -> None:
    missing = [name for name in (*_TERMS, "http", "issuedAtMs", "signature") if name not in terms]
    if terms.get("kind") != "stemma-invitation" or terms.get("format") != 1 or missing:
        raise _invalid(f"it is not the invitation of a device ({', '.join(missing) or 'kind'})")
    members = {name: value for name, value in terms.items() if name != "signature"}
    try:
        key, signature = bytes.fromhex(terms["serverPublicKey"]), bytes.fromhex(terms["signature"])
    except (TypeError, ValueError) as error:
        raise _invalid("its key or signature is malformed") from error
    if not is_signed(key, b"stemma-invitation-1\0" + canonical_json(members), signature):
        raise _invalid("it was changed after it was made")


def _waiting_keys(folder: Path, terms: Mapping[str, Any], pair: tuple[str, str] | None) -> dict[str, str]:
    subject = {name: terms[name] for name in ("fleet", "device", "generation")}
    owned = {} if pair is None else {"ownedKey": hashlib.sha256(pair[1].encode("ascii")).hexdigest()}
    named = {"subject": subject, **owned}
    path = folder / WAITING
    if path.exists():
        keys = read_json(path, "ENROLMENT_INVALID")
        if {name: keys.get(name) for name in named} == named and ("ownedKey" in keys) == (pair is not None):
            connection = keys["connectionKey"] if pair is None else pair[1]
            return {"connectionKey": str(connection), **{name: str(keys[name]) for name in ("deviceSeed", "request")}}
    device = Ed25519PrivateKey.generate()
    made = new_request(subject, device, None if pair is None else pair[1])
    keys = {"deviceSeed": device.private_bytes_raw().hex(), **made}
    kept = {name: value for name, value in keys.items() if pair is None or name != "connectionKey"}
    write_durably(path, json.dumps({**named, **kept}).encode("utf-8"))
    return keys


def _invalid(why: str) -> StemmaError:
    return StemmaError(
        "ENROLMENT_INVALID", f"The invitation cannot be used: {why}. Make a new one with `stemma device enroll`."
    )

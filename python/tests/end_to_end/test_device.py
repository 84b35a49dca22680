"""The second client of the protocol against a real server: what it fetches, reports, and does not believe."""

import json
import os
import time

import numpy as np
import pytest

import stemma
from stemma.errors import StemmaError

pytest.importorskip("paho.mqtt")
pytest.importorskip("cryptography")

from stemma.device import Device, enrol
from stemma.device.wire import encode

BASE = {
    "layer.weight": np.arange(300_000, dtype=np.float32).reshape(300, 1000),
    "bits": np.array([0x7F800001, 0x80000000], dtype=np.uint32).view(np.float32),
    "count": np.array(3, dtype=np.int64),
    "empty": np.zeros((0, 2), dtype=np.float16),
}


@pytest.fixture
def fleet():
    return stemma.connect()


def invited(fleet, name, base=None, line="pack"):
    initial = None if base is None else {line: str(base)}
    return fleet.api.invite(device=name, lines=[line], initial=initial, force=True)


@pytest.fixture
def device(fleet, tmp_path, request):
    name = f"py-{abs(hash(request.node.name)) % 10**8}"
    base = fleet.save(f"{name}-base", BASE)
    home = tmp_path / "home"
    enrol(home, invited(fleet, name, base))
    one = Device(home)
    one.name, one.base, one.home = name, base, home
    yield one
    one.close()


def tensors_of(device, line="pack"):
    from stemma.tensor_files import load

    return load(device.current(line) / "model.safetensors", "numpy")


def bits_of(tensors):
    return {name: (tensor.dtype.str, tensor.shape, tensor.tobytes()) for name, tensor in tensors.items()}


def test_a_device_gets_its_model_and_reports_a_child_that_comes_back_bit_for_bit(fleet, device):
    device.connect()
    device.wait(lambda: device.current("pack") is not None, 30)
    assert device.current("pack").name == device.base.id
    assert bits_of(tensors_of(device)) == bits_of(BASE)

    child = {**BASE, "bits": BASE["bits"][::-1].copy()}
    version = device.save("pack", child, {"accuracy": 0.5, "note": "ü"})
    assert device.save("pack", BASE) == device.base.id
    assert device.standing(version) == "pending"
    device.wait(lambda: device.standing(version) == "released", 30)
    device.wait(lambda: device.current("pack").name == version, 10)
    assert bits_of(fleet.recover(version)) == bits_of(child)
    described = fleet.api.model(version)
    assert described["metadata"] == {"accuracy": 0.5, "note": "ü"}
    assert [leaf["owner"]["versionId"] == version for leaf in described["leaves"]] == [
        leaf["name"] == "bits" for leaf in described["leaves"]
    ]
    assert [each["versionId"] for each in fleet.log(version)] == [version, device.base.id]
    wait_until(lambda: fleet.api.device(device.name)["active"]["pack"]["versionId"] == version, device)

    # Another session, after a restart: the counter grows, and a grandchild is saved without a connection.
    device.close()
    again = Device(device.home)
    grandchild = again.save("pack", {**child, "count": np.array(4, dtype=np.int64)})
    again.connect()
    again.wait(lambda: again.standing(grandchild) == "released", 30)
    again.close()
    assert fleet.recover(grandchild)["count"] == 4
    assert not [each for each in device.problems + again.problems if each.code != "HISTORY_UNPROVEN"]


def wait_until(is_so, device):
    end = time.monotonic() + 20
    while not is_so():
        assert time.monotonic() < end
        device.step(0.1)


def test_a_device_takes_part_in_a_rollout_and_is_sent_back(fleet, device):
    with pytest.raises(StemmaError) as raised:
        Device(device.home)
    assert raised.value.code == "HOME_LOCKED"
    device.run(lambda: device.current("pack") is not None)
    device.connect()
    update = fleet.save(f"{device.name}-update", {**BASE, "count": np.array(9, dtype=np.int64)}, base=device.base)
    policy = {"waves": ["rest"], "soakMinutes": 0, "unmeasured": "switch"}
    rollout = fleet.rollout(update, line="pack", select=f"name={device.name}", policy=policy)
    state = rollout.wait(timeout=60, on_progress=lambda _: device.step(0.2), poll_seconds=0.01)
    assert state["phase"] == "done", state["because"]
    assert device.current("pack").name == update.id
    fleet.api.undo_rollout(state["name"], because="the test")
    device.wait(lambda: device.current("pack").name == device.base.id, 30)


class Tampered:
    """Changes what a session gets, before it is judged."""

    def __init__(self, device, change):
        self.device, self.change, self.changed = device, change, 0

    def __enter__(self):
        from stemma.device import session

        self.read = session.Session.read

        def read(one, topic, payload):
            changed = self.change(topic, payload)
            self.changed += changed != payload
            return None if changed is None else self.read(one, topic, changed)

        session.Session.read = read
        self.device.connect()
        return self

    def __exit__(self, *_):
        from stemma.device import session

        session.Session.read = self.read


def flipped(payload):
    return payload[:-1] + bytes([payload[-1] ^ 1])


def ends(device, code):
    device.wait(lambda: any(each.code == code for each in device.problems), 30)
    assert device.current("pack") is None
    assert code == "TRANSFER_STALLED" or not list((device.home / "spool").glob("*"))


def test_flipped_bits_of_blocks_are_found_and_nothing_is_installed(device):
    with Tampered(device, lambda topic, payload: flipped(payload) if "/block/" in topic else payload):
        ends(device, "BLOCK_HASH_MISMATCH")
    assert not (device.home / "versions").exists()


def test_a_full_disk_drops_the_model_and_says_so(device, monkeypatch):
    from stemma.device import store

    def write_durably(path, _):
        raise OSError(28, "No space left on device", str(path))

    with monkeypatch.context() as patched:
        patched.setattr(store, "write_durably", write_durably)
        patched.setattr(store, "sync_file", lambda path: write_durably(path, b""))
        device.connect()
        ends(device, "DISK_FULL")
    device.close()
    device.connect()
    device.wait(lambda: device.current("pack") is not None, 30)


def test_a_transfer_that_is_cut_stalls_and_is_dropped(device, monkeypatch):
    from stemma.device import transfers

    monkeypatch.setattr(transfers, "STALL_SECONDS", 0.02)
    with Tampered(device, lambda topic, payload: None if "/block/" in topic else payload):
        ends(device, "TRANSFER_STALLED")


def test_an_offer_that_the_server_did_not_sign_is_not_acted_on(device):
    from stemma.device import session, wire

    def change(_, payload):
        signed = wire.decode("Envelope", payload)
        return flipped(payload) if signed["offer"] is not None else payload

    with Tampered(device, change) as tampered:
        device.wait(lambda: tampered.changed > 0, 20)
        for _ in range(5):
            device.step(0.05)
    assert device.current("pack") is None
    # One that its own envelope vouches for, and the server's key did not sign.
    forged = {
        "line": "pack",
        "version_id": bytes.fromhex(device.base.id),
        "record": b"{}",
        "objects": [],
        "signature": bytes(64),
        "generation": 1,
        "staged": False,
    }
    with pytest.raises(StemmaError) as raised:
        device._offers.take(forged)
    assert raised.value.code == "SIGNATURE_INVALID"
    payload = encode("Envelope", {"protocol": 1, "session": 1, "sequence": 99, "offer": forged})
    for lie in (payload, payload + session._SIGNATURE_HEAD + bytes(64), b"", b"\xff" * 100):
        assert device._session.read("x/down/words", lie) is None


def test_a_manifest_that_states_other_hashes_ends_at_the_ids(device, monkeypatch):
    """The sender hashes other bytes: every block fits its manifest, and no object its id."""
    import hashlib

    from stemma.device import transfers

    zeros = transfers.Download.on_block
    manifests = transfers.Download.on_manifest

    def on_manifest(self, manifest, now):
        length, size = manifest["byte_length"], manifest["block_bytes"]
        blocks = [bytes(min(size, length - at)) for at in range(0, length, size)][16 * manifest["part"] :][:16]
        hashes = b"".join(hashlib.sha256(block).digest() for block in blocks)
        manifests(self, {**manifest, "block_hashes": hashes}, now)

    monkeypatch.setattr(transfers.Download, "on_manifest", on_manifest)
    monkeypatch.setattr(
        transfers.Download,
        "on_block",
        lambda self, block, now: zeros(self, {**block, "data": bytes(len(block["data"]))}, now),
    )
    device.connect()
    ends(device, "OBJECT_HASH_MISMATCH")


def test_a_server_that_forgot_the_journal_is_not_believed(device):
    device.connect()
    device.wait(lambda: device.current("pack") is not None, 30)
    device.close()
    state = json.loads((device.home / "state.json").read_text())
    state["head"]["root"] = "0" * 64
    (device.home / "state.json").write_text(json.dumps(state))
    again = Device(device.home)
    with pytest.raises(StemmaError) as raised:
        again.connect(timeout=0.01)
    assert raised.value.code == "TIMED_OUT"
    again.wait(lambda: "HISTORY_UNPROVEN" in [each.code for each in again.problems], 20)
    again.close()

    # Nor is one that was believed, once it cannot prove that any more.
    state = json.loads((device.home / "state.json").read_text()) | {"head": None}
    (device.home / "state.json").write_text(json.dumps(state))
    again.connect()
    again._state.values["head"]["root"] = "0" * 64
    again._send_birth()
    again.wait(lambda: not again._belief.is_believed, 20)
    again.close()


def test_an_invitation_that_was_changed_or_used_is_refused(fleet, tmp_path):
    name = f"py-{os.getpid()}-{time.time_ns() % 10**6}"
    invitation = invited(fleet, name)
    for change in ({"device": "other"}, {"serverPublicKey": "0" * 64}, {"http": None}, {"format": 2}):
        with pytest.raises(StemmaError) as raised:
            enrol(tmp_path / "changed", {**invitation, **change})
        assert raised.value.code == "ENROLMENT_INVALID"
    enrol(tmp_path / "one", invitation)
    for home in ("one", "two"):
        with pytest.raises(StemmaError) as raised:
            enrol(tmp_path / home, invitation)
        assert raised.value.code in ("ENROLMENT_INVALID", "CERTIFICATE_REFUSED")
    with pytest.raises(StemmaError) as raised:
        Device(tmp_path / "one").save("pack", BASE)
    assert raised.value.code == "BASE_MISSING"

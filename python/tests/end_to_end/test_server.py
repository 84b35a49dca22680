"""The client against a real server, and against one whose answers somebody changes on the way."""

import http.client
import json
import os
import ssl
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np
import pytest

import stemma
from stemma.errors import StemmaError

WEIGHTS = {
    "half": np.array([0x7C01, 0x8000, 0x3C00], dtype=np.uint16).view(np.float16),
    "signalling": np.array([0x7F800001, 0x7FC00001], dtype=np.uint32).view(np.float32),
    "scalar": np.array(3, dtype=np.int64),
}


def bits_of(tensors):
    return {name: (tensor.dtype.str, tensor.shape, tensor.tobytes()) for name, tensor in tensors.items()}


@pytest.fixture
def fleet():
    return stemma.connect()


def test_every_bit_comes_back(fleet, tmp_path):
    told = []
    measured = [{"iteration": 1, "epoch": 1, "loss": 0.5, "learningRate": None}]
    saved = fleet.save(
        "bits",
        WEIGHTS,
        line="bits",
        metrics={"accuracy": np.float32(0.5), "note": "ü", "ok": True, "measurements": measured},
        attachments={"notes.txt": b"notes"},
        progress=lambda done, total: told.append((done, total)),
    )
    assert told[-1][0] == told[-1][1]
    for recovered in (fleet.recover(saved), fleet.recover(str(saved)), fleet.recover(saved.id)):
        assert bits_of(recovered) == bits_of(WEIGHTS)
    described = fleet.api.model(str(saved))
    assert described["metadata"] == {"accuracy": 0.5, "note": "ü", "ok": True}
    assert described["measurements"] == measured
    assert fleet.api.attachment(str(saved), "notes.txt")["byteLength"] == 5
    file = tmp_path / "model.safetensors"
    assert fleet.recover(saved, file=file) == file
    again = fleet.save("bits", file, base=saved)
    assert again.report["unchanged"] is True
    assert [version["version"] for version in fleet.log(again)] == [again.number, saved.number]
    assert list(tmp_path.iterdir()) == [file]


def test_what_the_server_refuses_has_its_code(fleet):
    fleet.save("bits", WEIGHTS)
    for work, code in [
        (lambda: fleet.recover("nobody"), "MODEL_NOT_FOUND"),
        (lambda: fleet.evaluate("bits", "nothing"), "DATASET_UNKNOWN"),
        (lambda: fleet.save("bits", {"other": np.ones(1)}, base="nobody"), "MODEL_NOT_FOUND"),
        (lambda: fleet.save("bits", {"x": np.ones(1)}, metrics={"loss": float("nan")}), "NOT_A_NUMBER"),
        (lambda: fleet.rollout("bits", line="bits", select="all"), "ROLLOUT_REACHES_NOBODY"),
        (lambda: stemma.connect(token="wrong").log("bits"), "TOKEN_INVALID"),
        # The server answers before it has taken all of that.
        (lambda: stemma.connect(token="wrong").save("bits", {"w": np.zeros(4_000_000)}), "TOKEN_INVALID"),
    ]:
        with pytest.raises(StemmaError) as raised:
            work()
        assert raised.value.code == code


def test_a_certificate_of_nobody_known_is_refused(monkeypatch):
    monkeypatch.delenv("STEMMA_CA")
    with pytest.raises(StemmaError, match=r"authority\.pem") as raised:
        stemma.connect().log("bits")
    assert raised.value.code == "SERVER_UNREACHABLE"


class Liar:
    """Passes requests on to the server, and changes what it answers."""

    def __init__(self, change):
        url = urlsplit(os.environ["STEMMA_SERVER"])
        context = ssl.create_default_context(cafile=os.environ["STEMMA_CA"])

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                connection = http.client.HTTPSConnection(url.hostname, url.port, context=context)
                connection.request("GET", self.path, headers={"authorization": self.headers["authorization"]})
                answer = connection.getresponse()
                headers = dict(answer.getheaders())
                body = answer.read()
                length = len(body)
                body = change(self.path, headers, body)
                self.send_response(answer.status)
                for name, value in headers.items():
                    if name.lower() not in ("content-length", "connection", "transfer-encoding"):
                        self.send_header(name, value)
                self.send_header("content-length", str(length if "tensors" in self.path else len(body)))
                self.end_headers()
                self.wfile.write(body)
                self.close_connection = True

            def log_message(self, *_):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.client = stemma.connect(f"http://127.0.0.1:{self.server.server_port}")

    def __enter__(self):
        return self.client

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()


def flip_bit(path, _, body):
    return body[:-1] + bytes([body[-1] ^ 1]) if "/tensors" in path else body


def cut(path, _, body):
    return body[:-1] if "/tensors" in path else body


def other_root(path, _, body):
    if "/tensors" in path:
        return body
    described = json.loads(body)
    described["record"]["root"] = "0" * 64
    return json.dumps(described).encode()


def swapped_names(_path, _, body):
    return body.replace(b'"half"', b'"HALF"').replace(b'"scalar"', b'"half"').replace(b'"HALF"', b'"scalar"')


def swapped_display_names(path, _, body):
    """Says that the model has an architecture, where names are the server's word, and swaps two of them."""
    if "/tensors" in path:
        return body
    described = json.loads(body)
    described["record"]["kind"] = "architecture"
    one, other = described["leaves"][0], described["leaves"][1]
    one["name"], other["name"] = other["name"], one["name"]
    return json.dumps(described).encode()


def other_version(path, headers, body):
    if "/tensors" in path:
        headers["stemma-version-id"] = "0" * 64
    return body


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (flip_bit, "ROOT_MISMATCH"),
        (cut, "RECOVERY_INCOMPLETE"),
        (other_root, "RECORD_INVALID"),
        (swapped_names, "ROOT_MISMATCH"),
        (swapped_display_names, "RECORD_INVALID"),
        (other_version, "SERVER_UNREACHABLE"),
    ],
)
def test_a_lie_about_the_tensors_is_found_and_leaves_nothing(fleet, tmp_path, change, code):
    saved = fleet.save("lied-about", WEIGHTS)
    file = tmp_path / "model.safetensors"
    with Liar(change) as client, pytest.raises(StemmaError) as raised:
        client.recover(saved, file=file)
    assert raised.value.code == code
    assert list(Path(tmp_path).iterdir()) == []


def test_a_model_of_another_id_is_found(fleet):
    one, other = fleet.save("one", WEIGHTS), fleet.save("other", {"x": np.ones(1)})
    url = os.environ["STEMMA_SERVER"]
    client = stemma.connect(url)
    exchange = client.api._exchange
    client.api._exchange = lambda operation, method, path, body, *, is_long: exchange(
        operation, method, path.replace(one.id, other.id), body, is_long=is_long
    )
    with pytest.raises(StemmaError) as raised:
        client.recover(one)
    assert raised.value.code == "RECORD_INVALID"


def test_a_model_with_an_architecture_comes_back_and_is_rolled_out():
    fleet = stemma.connect(
        os.environ["PLAIN_SERVER"],
        token=os.environ["PLAIN_TOKEN"],
        fleet=os.environ["PLAIN_FLEET"],
    )
    tensors = fleet.recover("base")
    changed = {name: tensor + 1 for name, tensor in tensors.items()}
    update = fleet.save("update", changed, base="base")
    phases = []
    rollout = fleet.rollout(
        update, line="cam", select="all", policy={"waves": ["rest"], "soakMinutes": 0, "unmeasured": "switch"}
    )
    end = rollout.wait(timeout=60, on_progress=lambda state: phases.append(state["phase"]), poll_seconds=0.1)
    assert (end["phase"], phases[-1]) == ("done", "done"), end["because"]
    assert bits_of(fleet.recover(update)) == bits_of(changed)

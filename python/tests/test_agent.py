"""The agent's sockets, with a listener in its place that keeps what it was asked."""

import json
import socket
import threading
from pathlib import Path

import numpy as np
import pytest

import stemma.agent
from stemma.errors import StemmaError
from stemma.training import Recorder

SAVED = {"line": "soh", "versionId": "v" * 64, "sequence": 4, "isNew": True, "base": None}


class FakeAgent:
    def __init__(self, home, answer):
        self.home, self.answer, self.requests, self.files = home, answer, [], {}
        path = str(home / "models.sock")
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(path)
        self.listener.listen()
        (home / "run.json").write_text(json.dumps({"pid": 1, "models": path, "samples": path, "control": path}))
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        try:
            while True:
                connection, _ = self.listener.accept()
                with connection, connection.makefile("rb") as lines:
                    request = json.loads(lines.readline())
                    self.requests.append(request)
                    check = request.get("check", {}).get("file")
                    for file in [request.get("file"), check, *request.get("attachments", [])]:
                        if file is not None:
                            self.files[Path(file).name] = Path(file).read_bytes()
                    connection.sendall(self.answer)
        except OSError:
            return

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.listener.close()


def answered(result):
    return json.dumps({"id": 1, "ok": True, "result": result}).encode() + b"\n"


def test_a_model_in_memory_is_given_as_a_file(tmp_path):
    with FakeAgent(tmp_path, answered(SAVED)) as agent:
        saved = stemma.agent.save(
            "soh", {"w": np.ones(2, np.float32)}, metrics={"accuracy": 0.9}, attachments={"n.txt": b"x"}, home=tmp_path
        )
    assert (saved.version_id, saved.sequence, saved.is_new) == ("v" * 64, 4, True)
    request = agent.requests[0]
    assert (request["do"], request["line"], request["metrics"]) == ("save", "soh", {"accuracy": 0.9})
    assert agent.files["n.txt"] == b"x"
    assert agent.files["model.safetensors"].endswith(b"\0\0\x80\x3f" * 2)


def test_samples_to_check_are_given_as_a_file_too(tmp_path):
    samples = {"inputs": np.ones((1, 2), np.float32), "outputs": np.zeros((1, 1), np.float32)}
    with FakeAgent(tmp_path, answered(SAVED)) as agent:
        stemma.agent.save("soh", {"w": np.ones(2, np.float32)}, check=samples, tolerance=0.5, home=tmp_path)
        stemma.agent.save("soh", {"w": np.ones(2, np.float32)}, check=tmp_path / "run.json", home=tmp_path)
        with pytest.raises(StemmaError) as raised:
            stemma.agent.save("soh", {"w": np.ones(2, np.float32)}, tolerance=0.5, home=tmp_path)
    assert raised.value.code == "USAGE"
    given, named = (request["check"] for request in agent.requests)
    assert given["tolerance"] == 0.5
    assert agent.files["check.safetensors"].endswith(b"\0\0\x80\x3f" * 2 + b"\0" * 4)
    assert named == {"file": str(tmp_path / "run.json")}


def test_a_record_with_many_members_goes_into_a_file(tmp_path):
    recorder = Recorder({"own": 2**63})
    recorder.settings("many", {str(i): i for i in range(150)})
    recorder.batch([3, 1])
    recorder.measure(0.5, 0.1, metrics={"accuracy": 1.0})
    with FakeAgent(tmp_path, answered(SAVED)) as agent:
        recorder.save(stemma.agent.Agent(tmp_path), "soh", {"w": np.ones(1)}, metrics={"top": 1}, message="m")
    metrics = agent.requests[0]["metrics"]
    assert metrics["top"] == 1
    assert metrics["measurements"] == [{"iteration": 0, "epoch": 0, "loss": 0.5, "learningRate": 0.1}]
    facts = json.loads(agent.files[metrics["facts"]])
    assert (facts["seed.own"], facts["many.149"], facts["message"]) == (str(2**63), 149, "m")
    assert json.loads(agent.files["sample-order.json"]) == [[3, 1]]


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        (b"", "AGENT_UNREACHABLE"),
        (b"{", "AGENT_UNREACHABLE"),
        (b"{}\n", "AGENT_UNREACHABLE"),
        (b"[" * 100_000 + b"\n", "AGENT_UNREACHABLE"),
        (b'{"ok":true,"result":[]}\n', "AGENT_UNREACHABLE"),
        (b'{"ok":true,"result":{"line":"soh"}}\n', "AGENT_UNREACHABLE"),
        (b'{"ok":false,"code":"LINE_UNKNOWN","message":"No such line."}\n', "LINE_UNKNOWN"),
        (b" " * 200_000, "AGENT_UNREACHABLE"),
    ],
)
def test_hostile_answers_are_typed_errors(tmp_path, monkeypatch, answer, code):
    monkeypatch.setattr(stemma.agent, "MAX_ANSWER_BYTES", 150_000)
    with FakeAgent(tmp_path, answer), pytest.raises(StemmaError) as raised:
        stemma.agent.save("soh", {"w": np.ones(1)}, home=tmp_path)
    assert raised.value.code == code


def test_no_agent_a_wrong_name_and_silence_are_typed_errors(tmp_path):
    with pytest.raises(StemmaError) as raised:
        stemma.agent.current("soh", home=tmp_path)
    assert raised.value.code == "AGENT_UNREACHABLE"
    with FakeAgent(tmp_path, answered(SAVED)), pytest.raises(StemmaError) as raised:
        stemma.agent.save("soh", {"w": np.ones(1)}, attachments={"../up": b""}, home=tmp_path)
    assert raised.value.code == "USAGE"


def test_an_agent_that_stays_silent_ends_in_time(tmp_path):
    path = str(tmp_path / "s.sock")
    (tmp_path / "run.json").write_text(json.dumps({"models": path}))
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen()
        with pytest.raises(StemmaError) as raised:
            stemma.agent.Agent(tmp_path, timeout=0.1).current("soh")
    assert raised.value.code == "TIMED_OUT"

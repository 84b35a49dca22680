"""What hostile servers answer ends in typed errors, in bounded time."""

import json
import re
import socket
import threading
import time

import pytest

import stemma
from stemma import answers, transport
from stemma.contexts import NamedServer
from stemma.errors import StemmaError
from stemma.transport import Request, Transport


def answer_of(body, status="200 OK", **headers):
    lines = [f"HTTP/1.1 {status}", *(f"{name.replace('_', '-')}: {value}" for name, value in headers.items())]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


class HostileServer:
    """Answers every connection with the same bytes, in pieces with a pause after each."""

    def __init__(self, pieces, pause=0.0):
        self.pieces, self.pause = pieces, pause
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.listener.getsockname()[1]}"
        self.ended = threading.Event()
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        try:
            connection, _ = self.listener.accept()
            with connection:
                connection.recv(65536)
                for piece in self.pieces:
                    connection.sendall(piece)
                    if self.ended.wait(self.pause):
                        return
        except OSError:
            return

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.ended.set()
        self.listener.close()


def code_of(work):
    with pytest.raises(StemmaError) as raised:
        work()
    assert raised.value.message.endswith((".", "?"))
    return raised.value.code


def ask(url, silence=5.0):
    return stemma.connect(url, token="t", fleet="f", silence_seconds=silence).log("soh")


OK = json.dumps([]).encode()
REFUSED = json.dumps({"code": "MODEL_NOT_FOUND", "message": "There is no such model.", "details": {"a": 1}}).encode()


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        (b"", "SERVER_UNREACHABLE"),
        (b"\x00\x01\x02nonsense\r\n\r\n", "SERVER_UNREACHABLE"),
        (answer_of(b"<html>"), "SERVER_UNREACHABLE"),
        (answer_of(b"{}"), "SERVER_UNREACHABLE"),
        (answer_of(b"[1]"), "SERVER_UNREACHABLE"),
        (answer_of(b"[NaN]"), "SERVER_UNREACHABLE"),
        (answer_of(b"[" * 100_000), "SERVER_UNREACHABLE"),
        (answer_of(b"9" * 100_000), "SERVER_UNREACHABLE"),
        (answer_of(b"\xff\xfe["), "SERVER_UNREACHABLE"),
        (answer_of(OK, content_length="5"), "SERVER_UNREACHABLE"),
        (answer_of(b"zz\r\n", transfer_encoding="chunked"), "SERVER_UNREACHABLE"),
        (answer_of(b"", "302 Found", location="http://127.0.0.1:1/"), "SERVER_UNREACHABLE"),
        (answer_of(b"", "500 Oops"), "SERVER_UNREACHABLE"),
        (answer_of(b'{"code":"not a code","message":"m"}', "500 Oops"), "SERVER_UNREACHABLE"),
        (answer_of(b'{"code":"A_CODE","message":5}', "500 Oops"), "SERVER_UNREACHABLE"),
        (answer_of(REFUSED, "404 Not Found"), "MODEL_NOT_FOUND"),
        (b"HTTP/1.1 200 OK\r\n" + b"a: b\r\n" * 1000, "SERVER_UNREACHABLE"),
        (b"HTTP/1.1 200 OK\r\nx: " + b"y" * 100_000, "SERVER_UNREACHABLE"),
    ],
)
def test_hostile_answers_are_typed_errors(answer, code):
    with HostileServer([answer]) as server:
        assert code_of(lambda: ask(server.url)) == code


def test_an_answer_that_is_too_long_is_refused_while_it_comes(monkeypatch):
    monkeypatch.setattr(transport, "MAX_ANSWER_BYTES", 100_000)
    with HostileServer([answer_of(b" " * 100_001)]) as server:
        assert code_of(lambda: ask(server.url)) == "SIZE_OVER_LIMIT"


def test_silence_and_an_endless_trickle_end_in_time(monkeypatch):
    began = time.monotonic()
    with HostileServer([answer_of(b"[")], pause=30) as server:
        assert code_of(lambda: ask(server.url, silence=0.2)) == "TIMED_OUT"
    monkeypatch.setattr(transport, "LONG_SECONDS", 0.4)
    with HostileServer([b"HTTP/1.1 200 OK\r\n", *([b"x: y\r\n"] * 90)], pause=0.1) as server:
        assert code_of(lambda: ask(server.url)) == "TIMED_OUT"
    assert time.monotonic() - began < 20


def test_a_good_answer_and_an_unknown_member_are_taken():
    with HostileServer([answer_of(OK)]) as server:
        assert ask(server.url) == []
    body = json.dumps({"version": "9", "later": [1]}).encode()
    with HostileServer([answer_of(body)]) as server:
        assert stemma.connect(server.url).api.health() == {"version": "9", "later": [1]}


def test_what_cannot_be_sent_is_refused_before():
    client = stemma.connect("http://127.0.0.1:1", token="line\r\nbreak")
    assert code_of(lambda: client.log("soh")) == "USAGE"
    assert code_of(lambda: stemma.connect("http://127.0.0.1:1").log("..")) == "USAGE"
    for url in ("ftp://host", "host", "http://", "http://h:99999", "http://u:p@h", "http://h/?q"):
        assert code_of(lambda url=url: stemma.connect(url)) == "USAGE"
    assert code_of(lambda: stemma.connect("https://h", authority=__file__)) == "USAGE"
    assert code_of(lambda: stemma.connect("http://127.0.0.1:1").api.evaluate("m", data={1})) == "USAGE"


def test_a_body_that_is_longer_than_declared_is_cut_where_it_was_declared():
    server = HostileServer([answer_of(b"0123456789", content_length="4")])
    with server, Transport(NamedServer(server.url)).open(Request("GET", "/x")) as answer:
        assert b"".join(answer.pieces()) == b"0123"


def test_every_schema_can_be_used_and_refuses_a_foreign_value():
    text = json.dumps(answers._schemas())
    for pattern in json.loads("[" + ",".join(re.findall(r'"pattern": ("(?:[^"\\]|\\.)*")', text)) + "]"):
        answers._pattern(pattern)
    task = answers._pattern(r"^[\p{L}\p{N}][\p{L}\p{N} ._/-]*$")
    assert [task.search(text) is not None for text in ("Zähler/3", "-x", "a\n")] == [True, False, False]
    operations = list(answers._schemas()["answers"])
    assert len(operations) > 100
    for operation in operations:
        with pytest.raises(StemmaError):
            answers.check_answer(operation, object(), "A server")

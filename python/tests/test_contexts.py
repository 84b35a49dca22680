import json

import pytest

from stemma.contexts import named_server
from stemma.errors import StemmaError

PEM = "-----BEGIN CERTIFICATE-----\n"


@pytest.fixture(autouse=True)
def own_environment(monkeypatch, tmp_path):
    for name in ("STEMMA_SERVER", "STEMMA_TOKEN", "STEMMA_CA", "STEMMA_FLEET", "STEMMA_CONTEXT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    return tmp_path / "stemma" / "contexts.json"


def remember(path, value):
    path.parent.mkdir(exist_ok=True)
    path.write_text(value if isinstance(value, str) else json.dumps(value), encoding="utf-8")


def test_the_current_context_is_used_where_nothing_is_named(own_environment, monkeypatch):
    cars = {"server": "https://cars:1", "token": "t", "authority": PEM, "fleet": "cars"}
    remember(own_environment, {"format": 1, "current": "a", "contexts": {"a": cars, "b": {"server": "http://b"}}})
    server = named_server(None)
    assert (server.url, server.token, server.authority, server.fleet) == ("https://cars:1", "t", PEM, "cars")
    assert named_server(None, context="b", fleet="x").fleet == "x"
    monkeypatch.setenv("STEMMA_CONTEXT", "b")
    assert named_server(None).url == "http://b"
    monkeypatch.setenv("STEMMA_SERVER", "http://named")
    monkeypatch.setenv("STEMMA_TOKEN", "secret")
    named = named_server(None)
    assert (named.url, named.token, named.fleet) == ("http://named", "secret", "local")
    assert named_server("http://other").url == "http://other"


@pytest.mark.parametrize(
    ("value", "code"),
    [
        (None, "USAGE"),
        ("{", "CONFIG_INVALID"),
        ("[" * 100_000, "CONFIG_INVALID"),
        ([], "NOT_FOUND"),
        ({"format": 2, "current": "a", "contexts": {"a": {"server": "x"}}}, "NOT_FOUND"),
        ({"format": 1, "contexts": {"a": {"server": "x"}}}, "NOT_FOUND"),
        ({"format": 1, "current": "a", "contexts": []}, "NOT_FOUND"),
        ({"format": 1, "current": "a", "contexts": {"a": {}}}, "CONFIG_INVALID"),
        ({"format": 1, "current": "a", "contexts": {"a": {"server": 5}}}, "CONFIG_INVALID"),
        ({"format": 1, "current": "a", "contexts": {"a": 7}}, "CONFIG_INVALID"),
    ],
)
def test_damaged_files_are_refused(own_environment, value, code):
    if value is not None:
        remember(own_environment, value)
    with pytest.raises(StemmaError) as raised:
        named_server(None)
    assert raised.value.code == code


def test_two_names_for_a_server_are_refused():
    with pytest.raises(StemmaError) as raised:
        named_server("http://a", context="b")
    assert raised.value.code == "USAGE"
    with pytest.raises(StemmaError) as raised:
        named_server("https://a", authority="/does/not/exist")
    assert raised.value.code == "FILE_MISSING"

"""Which models a device keeps, and what it says where another has no space."""

import json
import shutil
from collections import namedtuple
from types import SimpleNamespace

import pytest

from stemma.errors import StemmaError
from stemma.identities import canonical_json, object_id, short_hash, tensor_hasher

pytest.importorskip("cryptography")

from stemma.device.offers import Offers
from stemma.device.record import read_record
from stemma.device.space import REPLACED_STAYS_MS, Keeping, Space
from stemma.device.state import DeviceState
from stemma.device.store import Leaf, Store, encode_tree, root_of_leaves

LINE = "soh"
SIZE = 1000


class Home:
    """The home of a device that runs nothing yet."""

    def __init__(self, folder, keep_last=2, budget_bytes=2**30):
        self.state = SimpleNamespace(
            home=folder,
            store=Store(folder),
            values={"outbox": {}, "lines": {}},
            time=SimpleNamespace(permanent_ms=0.0),
            seen=SimpleNamespace(length=0),
        )
        self.state.values["lines"][LINE] = {"active": None, "versions": []}
        self.state.entry = lambda version: self.state.values["outbox"].get(version)
        self.state.record = lambda version: read_record(self.state.store.read("record", version))
        self.state.keep = lambda: None
        self.state.layout = lambda *of: DeviceState.layout(self.state, *of)
        self.state.switched = lambda *switched: DeviceState.switched(self.state, *switched)
        self.space = Space(self.state, Keeping(budget_bytes, keep_last))

    @property
    def line(self):
        return self.state.values["lines"][LINE]

    def add(self, number, bases=(), shared=False):
        """Install a version of one tensor of its own, and of another that all have."""
        store = self.state.store
        leaves = []
        for path, value in [("own", number), ("shared", 255)] if shared else [("own", number)]:
            content = bytes([value]) * SIZE
            hasher = tensor_hasher("U8", (SIZE,))
            hasher.update(content)
            store.put(hasher.hexdigest(), content)
            leaves.append(Leaf(path, "U8", (SIZE,), hasher.hexdigest()))
        names = canonical_json({"leaves": [leaf.path for leaf in leaves]})
        small = {"tree": encode_tree(leaves, False), "names": names}
        ids = {name: object_id(name, content) for name, content in small.items()}
        for name, content in small.items():
            store.put(ids[name], content)
        none = short_hash("00" * 32)
        objects = {**{name: short_hash(id) for name, id in ids.items()}, "ownerMap": none, "environment": none}
        value = {"bases": [short_hash(each) for each in bases], "root": short_hash(root_of_leaves(leaves))}
        record = read_record(canonical_json({**value, "objects": objects, "number": number, "name": "m"}))
        store.put(record.version, record.content)
        store.install(record, leaves, names)
        self.line["versions"].append(record.version)
        return record.version

    def here(self):
        return {each.name for each in (self.state.home / "versions").iterdir()}

    def own_tensors(self, number):
        hasher = tensor_hasher("U8", (SIZE,))
        hasher.update(bytes([number]) * SIZE)
        return self.state.store.has(hasher.hexdigest())


def test_released_models_beyond_the_newest_are_removed_with_what_only_they_had(tmp_path):
    home = Home(tmp_path)
    versions = [home.add(number, shared=True) for number in range(5)]
    home.line["active"] = versions[4]
    assert home.space.tidy() == sorted(versions[:3])
    assert home.here() == set(versions[3:])
    assert [home.own_tensors(number) for number in range(5)] == [False, False, False, True, True]
    assert home.own_tensors(255), "what the others share stays"
    assert home.space.tidy() == []


def test_what_runs_ran_before_is_staged_or_is_not_released_stays(tmp_path):
    home = Home(tmp_path, keep_last=1)
    versions = [home.add(number) for number in range(6)]
    base = versions[2]
    own = home.add(9, bases=[base])
    home.state.values["outbox"][own] = {"line": LINE, "standing": "recorded", "position": 7}
    home.line.update(active=versions[0], previous=versions[1], staged=versions[3])
    assert home.space.tidy() == [versions[4]]
    assert home.here() == {own, *versions} - {versions[4]}
    home.state.values["outbox"][own]["standing"] = "released"
    home.line.update(staged=None)
    assert set(home.space.tidy()) == {base, versions[3], versions[5]}


def test_an_own_model_that_is_removed_is_named_after_a_restore_that_lost_it(tmp_path):
    home = Home(tmp_path, keep_last=1)
    own = home.add(1)
    home.state.values["outbox"][own] = {"line": LINE, "standing": "released", "position": 7}
    home.line["active"] = home.add(2)
    assert home.space.tidy() == [own]
    assert home.state.values["forgotten"] == {own: {"line": LINE, "position": 7}}
    assert home.state.values["outbox"] == {}


def test_nothing_is_removed_while_the_server_is_not_believed(tmp_path):
    home = Home(tmp_path, keep_last=1)
    for number in range(4):
        home.add(number)
    home.state.values["isDoubted"] = True
    assert home.space.tidy() == []
    assert len(home.here()) == 4


def test_a_replaced_version_stays_for_its_readers_and_then_goes(tmp_path):
    home = Home(tmp_path, keep_last=1)
    first, *_, last = [home.add(number) for number in range(3)]
    home.line["active"] = last
    home.state.values["replaced"] = {first: 0.0}
    home.space.tidy()
    assert home.here() == {first, last}
    home.state.time.permanent_ms = REPLACED_STAYS_MS
    home.space.tidy()
    assert home.here() == {last}


def test_a_version_of_two_lines_goes_where_both_let_it_go(tmp_path):
    home = Home(tmp_path, keep_last=1)
    first, last = home.add(1), home.add(2)
    home.state.values["lines"]["cam"] = {"active": None, "versions": [first]}
    assert home.space.tidy() == []
    home.state.values["lines"]["cam"]["versions"].append(last)
    assert home.space.tidy() == [first]


def test_a_kill_between_the_state_and_the_bytes_leaves_nothing_for_good(tmp_path, monkeypatch):
    home = Home(tmp_path, keep_last=1)
    first, last = home.add(1), home.add(2)
    monkeypatch.setattr(home.state.store, "remove_objects", lambda _: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        home.space.tidy()
    monkeypatch.undo()
    home.state.values = json.loads(json.dumps(home.state.values))
    (tmp_path / "versions" / f".{first}.leaving").mkdir()
    assert Space(home.state, Keeping()).tidy() == []
    assert home.here() == {last}
    assert not home.own_tensors(1)


def test_nothing_is_swept_where_a_record_that_stays_is_damaged(tmp_path):
    home = Home(tmp_path, keep_last=1)
    home.add(1)
    last = home.add(2)
    home.state.store.path(last).write_bytes(b"{}")
    with pytest.raises(StemmaError) as caught:
        home.space.tidy()
    assert caught.value.code == "OBJECT_HASH_MISMATCH"
    assert home.own_tensors(1)


def test_what_does_not_fit_is_refused_after_what_may_go_was_removed(tmp_path, monkeypatch):
    home = Home(tmp_path, keep_last=1, budget_bytes=2**20 + 20_000)
    for number in range(4):
        home.add(number)
    home.space.require(12_000, "The model")
    assert len(home.here()) == 1
    with pytest.raises(StemmaError, match=r"20000 bytes are needed, and \d+ are missing") as caught:
        home.space.require(20_000, "The model")
    assert caught.value.code == "DISK_BUDGET_EXHAUSTED"
    usage = namedtuple("usage", "total used free")(0, 0, 2**20 + 100)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage)
    with pytest.raises(StemmaError, match="or on the disk"):
        home.space.require(101, "The model")


def test_what_a_link_points_to_stays_where_a_kill_came_before_the_switch_was_noted(tmp_path):
    home = Home(tmp_path, keep_last=1)
    versions = [home.add(number) for number in range(4)]
    home.line.update(active=versions[3], previous=versions[2])
    home.state.store.switch(LINE, versions[0])
    assert home.space.tidy() == [versions[1]]
    assert (tmp_path / "current" / LINE / "model.safetensors").exists()


def test_a_home_whose_link_is_ahead_of_its_state_runs_what_programs_read(tmp_path):
    home = Home(tmp_path)
    versions = [home.add(number) for number in range(3)]
    home.line.update(active=versions[2], previous=versions[1], number=4, staged=versions[0])
    home.state.store.switch(LINE, versions[0])
    names = {"fleet": "f", "device": "d", "root": "stemma", "generation": 1, "mqtt": [], "lines": [LINE]}
    keys = {"serverPublicKey": "00" * 32, "deviceSeed": "11" * 32, "authorities": []}
    enrolment = {**names, **keys, "profile": "generic", "certificate": "", "connectionKey": ""}
    (tmp_path / "enrolment.json").write_text(json.dumps(enrolment))
    (tmp_path / "state.json").write_text(json.dumps({**home.state.values, "session": 1, "accepted": 1, "head": None}))
    state = DeviceState(tmp_path)
    line = state.line(LINE)
    assert (line["active"], line["previous"], line["number"], line["staged"]) == (versions[0], versions[2], 5, None)
    assert set(state.values["replaced"]) == {versions[2]}
    state.unlock()


def test_what_is_being_fetched_stays_also_where_the_device_saves_a_model_of_its_own(tmp_path):
    home = Home(tmp_path, keep_last=1, budget_bytes=2**20 + 20_000)
    home.add(1)
    offered = home.add(2)
    record = home.state.record(offered)
    home.line["versions"].remove(offered)
    home.add(3)
    home.space.fetched = lambda: [record]
    with pytest.raises(StemmaError):
        home.space.require(2**20, "The model of soh")
    assert home.state.store.has(offered)
    assert home.own_tensors(2)
    assert not home.own_tensors(1)


def test_what_a_failed_save_left_is_removed_where_there_is_no_space(tmp_path):
    home = Home(tmp_path, keep_last=2, budget_bytes=2**20 + 10_000)
    home.add(1)
    home.state.store.put("ab" * 32, bytes(9_000))
    home.space.require(5_000, "The model")
    assert not home.state.store.has("ab" * 32)
    assert home.own_tensors(1)


def test_a_removed_model_of_an_earlier_release_may_be_lost_by_any_restore(tmp_path):
    home = Home(tmp_path, keep_last=1)
    own = home.add(1)
    home.state.values["outbox"][own] = {"line": LINE, "standing": "released"}
    home.state.seen.length = 40
    home.line["active"] = home.add(2)
    assert home.space.tidy() == [own]
    assert home.state.values["forgotten"] == {own: {"line": LINE, "position": 39}}


def test_an_earlier_time_of_the_owner_keeps_no_replaced_version_for_good(tmp_path):
    home = Home(tmp_path, keep_last=1)
    first, last = home.add(1), home.add(2)
    home.line["active"] = last
    home.state.values["replaced"] = {first: 10.0**12}
    home.space.tidy()
    assert home.here() == {first, last}
    home.state.time.permanent_ms = REPLACED_STAYS_MS
    home.space.tidy()
    assert home.here() == {last}


def test_a_model_is_installed_where_another_that_stays_is_damaged(tmp_path):
    home = Home(tmp_path, keep_last=1)
    damaged = home.add(1)
    offered = home.add(2)
    home.line.update(active=damaged, number=1, reported=0, atMs=0)
    home.line["versions"].remove(offered)
    home.state.line = lambda _: home.line
    own = {"line": LINE, "standing": "recorded", "position": 7}
    home.state.values["outbox"][damaged] = own
    home.state.store.path(damaged).write_bytes(b"{}")
    notes, sent = [], []
    releases = SimpleNamespace(require=lambda *_: None)
    home.state.time.present_ms = 0.0
    send = lambda body, message, *_: sent.append((body, message))  # noqa: E731
    offers = Offers(home.state, releases, home.space, send, notes.append)
    record = home.state.record(offered)
    record.objects.pop("ownerMap")
    offers._open[offered] = SimpleNamespace(line=LINE, record=record, is_staged=False, download=None)
    offers.move(0.0)
    assert home.line["active"] == offered
    assert [each.code for each in notes] == ["OBJECT_HASH_MISMATCH"]
    assert [body for body, _ in sent] == ["activated"]


def test_what_has_come_of_a_transfer_that_ended_makes_place_for_another(tmp_path):
    home = Home(tmp_path, budget_bytes=2**20 + 10_000)
    (tmp_path / "spool").mkdir()
    for name in ("ended", "ended.object", "open"):
        (tmp_path / "spool" / name).write_bytes(bytes(3_000))
    home.space.transfers = lambda: {"open"}
    home.space.require(6_000, "The model")
    assert [each.name for each in (tmp_path / "spool").iterdir()] == ["open"]

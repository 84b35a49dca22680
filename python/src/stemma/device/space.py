"""
Which models a device keeps, and whether another has space (docs/protocol.md, "Offers").

The rule is the agent's: a model may go once the server has released it, where it is beyond the newest of its line, and
nothing needs it. What is not released is never removed.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from stemma.device.record import Record
from stemma.device.state import DeviceState
from stemma.device.store import SPOOL, decode_tree, disk_error
from stemma.errors import StemmaError

BUDGET_BYTES = 4 * 2**30
KEEP_LAST = 3
RESERVED_BYTES = 2**20
"""What the device's own state and its reports may need."""
REPLACED_STAYS_MS = 10 * 60_000
"""So long the folder of a replaced version stays, for programs that read it (docs/reference/current.md)."""
MAX_FORGOTTEN = 1000


@dataclass(frozen=True)
class Keeping:
    """How much of the disk a device may use, and how many released models of a line it keeps."""

    budget_bytes: int = BUDGET_BYTES
    keep_last: int = KEEP_LAST


class Space:
    """What is removed from the home of a device, and what still fits."""

    def __init__(self, state: DeviceState, keeping: Keeping) -> None:
        self._state = state
        self._keeping = keeping
        self.fetched: Callable[[], Iterable[Record]] = tuple
        """The records of the versions that are being fetched: what is here of them stays."""
        self.transfers: Callable[[], set[str]] = set
        """The transfers that go on; what has come of others goes where there is no space."""

    def require(self, needed: int, what: str) -> None:
        """Require that so many bytes more fit; what may go is removed first, also what a failed save left."""
        if self._lacking(needed) > 0:
            self._state.values["isUntidy"] = True
            self.tidy()
        if self._lacking(needed) > 0:
            self._state.store.keep_transfers(self.transfers())
        lacking = self._lacking(needed)
        if lacking > 0:
            raise StemmaError(
                "DISK_BUDGET_EXHAUSTED",
                f"{what} does not fit: {needed} bytes are needed, and {lacking} are missing within the budget of "
                f"{self._keeping.budget_bytes} bytes or on the disk. Nothing that is not released is removed. There is "
                "space again when the server has released models, or with a larger `budget_bytes`.",
            )

    def _lacking(self, needed: int) -> int:
        free = shutil.disk_usage(self._state.home).free
        left = min(self._keeping.budget_bytes - self._used(), free) - RESERVED_BYTES
        return needed - left

    def _used(self) -> int:
        folders = [self._state.home / name for name in ("objects", "versions", SPOOL)]
        return sum(file.stat().st_size for each in folders for file in each.rglob("*") if file.is_file())

    def tidy_noted(self, note: Callable[[StemmaError], None]) -> None:
        """Tidy up; what cannot be read or removed keeps nothing else from going on."""
        try:
            self.tidy()
        except StemmaError as error:
            note(error)
        except OSError as error:
            note(disk_error(error))

    def tidy(self) -> list[str]:
        """Forget what the rule lets go, and remove what nothing needs; gives what was forgotten."""
        values = self._state.values
        gone = self._forgettable()
        if gone:
            # A home of an earlier release has no positions: all that is known is that the journal was longer.
            unknown = max(0, self._state.seen.length - 1)
            for line in values["lines"].values():
                line["versions"] = [each for each in line["versions"] if each not in gone]
            for version in gone:
                entry = values["outbox"].pop(version, None)
                if entry is not None:
                    lost = {"line": entry["line"], "position": entry.get("position", unknown)}
                    values.setdefault("forgotten", {})[version] = lost
            forgotten = values.setdefault("forgotten", {})
            for version in list(forgotten)[:-MAX_FORGOTTEN]:
                del forgotten[version]
            values["isUntidy"] = True
            # First what is known, then the bytes: the state never names what is gone.
            self._state.keep()
        if values.get("isUntidy", False):
            self._sweep()
            values["isUntidy"] = False
            self._state.keep()
        self._remove_folders()
        return sorted(gone)

    def _kept(self) -> set[str]:
        values = self._state.values
        listed = (each for line in values["lines"].values() for each in line["versions"])
        return {*values["outbox"], *listed, *self._needed()}

    def _forgettable(self) -> set[str]:
        values = self._state.values
        if values.get("isDoubted", False):
            # A server with another history may have lost what it released.
            return set()
        needed = self._needed()
        gone: set[str] = set()
        for line in values["lines"].values():
            released = [each for each in reversed(line["versions"]) if self._is_released(each)]
            gone.update(each for each in released[self._keeping.keep_last :] if each not in needed)
        # A version of several lines goes only where all of them let it go.
        for line in values["lines"].values():
            released = [each for each in reversed(line["versions"]) if self._is_released(each)]
            gone.difference_update(released[: self._keeping.keep_last])
        return gone

    def _is_released(self, version: str) -> bool:
        entry = self._state.entry(version)
        # What the server offered it has.
        return entry is None or entry["standing"] == "released"

    def _needed(self) -> set[str]:
        """Give what lines run and ran before, what is staged, and what models that are not released were made from."""
        values = self._state.values
        needed = {line.get(name) for line in values["lines"].values() for name in ("active", "previous", "staged")}
        bases = [
            base
            for version, entry in values["outbox"].items()
            if entry["standing"] != "released"
            for base in self._bases_of(version)
        ]
        needed.update(bases, (before for base in bases for before in self._bases_of(base)))
        # A kill may come after a line's link was switched, and before that was noted.
        needed.update(link.readlink().name for link in self._links())
        return {each for each in needed if each is not None}

    def _links(self) -> list[Path]:
        folder = self._state.home / "current"
        return [each for each in folder.iterdir() if each.is_symlink()] if folder.exists() else []

    def _bases_of(self, version: str) -> list[str]:
        return self._state.record(version).bases if self._state.store.has(version) else []

    def _sweep(self) -> None:
        """Remove objects that no version names which is kept or being fetched; nothing, where one cannot be read."""
        store = self._state.store
        live: set[str] = set()
        records = [self._state.record(version) for version in self._kept() if store.has(version)]
        for record in [*records, *self.fetched()]:
            live.update([record.version, *record.objects.values()])
            tree = record.objects["tree"]
            if store.has(tree):
                live.update(leaf.id for leaf in decode_tree(store.read("tree", tree)))
        store.remove_objects(live)

    def _remove_folders(self) -> None:
        """Remove installed versions that are forgotten, once nobody may read them any more."""
        values = self._state.values
        now_ms = self._state.time.permanent_ms
        kept = self._kept()
        replaced = values.setdefault("replaced", {})
        for version, at_ms in replaced.items():
            # The fleet's owner may state an earlier time.
            replaced[version] = min(at_ms, now_ms)
        for version in [each for each, at_ms in replaced.items() if now_ms - at_ms >= REPLACED_STAYS_MS]:
            del replaced[version]
        for folder in _folders(self._state.home / "versions"):
            if folder.name not in kept and folder.name not in replaced:
                self._state.store.remove_version(folder.name)


def _folders(folder: Path) -> list[Path]:
    return [each for each in folder.iterdir() if each.is_dir()] if folder.exists() else []

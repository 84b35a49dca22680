"""Whether a device believes its server (docs/protocol.md, "Backups and history"), also after a restore."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from stemma.device.history import Head, hashes_of, is_consistent, is_included, next_head, rewritten
from stemma.device.releases import Releases
from stemma.device.state import STANDINGS, DeviceState
from stemma.device.wire import Message
from stemma.errors import StemmaError

MAX_PAGES = 64
MAX_OF_PAGE = 16
MAX_KNOWN = MAX_PAGES * MAX_OF_PAGE
MAX_UNANSWERED = 3


@dataclass(frozen=True)
class _Shown:
    """A fact `restored` that this device did not know: what was recorded from `position` on may be lost."""

    leaf: str
    at: int
    position: int
    is_approved: bool


class Belief:
    """Judges welcomes: a journal goes on from what was seen, or shows a restore that explains why it does not."""

    def __init__(self, state: DeviceState, releases: Releases, tell: Callable[[str, str], None]) -> None:
        self._state = state
        self._releases = releases
        self._tell = tell
        self.is_believed = False
        self.waits_for_owner = False
        self._is_told = False
        self.begin()

    def begin(self) -> None:
        """Forget what was shown: a session begins."""
        self.is_believed = self._is_told = False
        self._unanswered = 0
        self._forget_shown()

    def _forget_shown(self) -> None:
        self._from, self._pages = 0, 0
        self._unknown: list[_Shown] = []

    @property
    def is_refused(self) -> bool:
        """Whether the server was refused in this session, and is not believed."""
        return self._is_told and not self.is_believed

    def birth(self) -> dict[str, Any]:
        """Give what a birth states of restores."""
        return {"restores_from": self._from}

    def take(self, welcome: Message) -> bool:
        """Judge a welcome; False where another birth has to be answered first."""
        try:
            before = self._pages
            is_answered = self._judge(welcome)
            self._unanswered = 0 if is_answered or self._pages > before else self._unanswered + 1
            if self._unanswered > MAX_UNANSWERED:
                raise rewritten("it proves another history than is asked for")
        except StemmaError as error:
            self.is_believed = False
            self._forget_shown()
            self._state.values["isDoubted"] = True
            self._state.keep()
            if not self._is_told:
                self._tell("server-history-rewritten", error.message)
            self._is_told = True
            raise
        return is_answered

    def _judge(self, welcome: Message) -> bool:
        head = next_head(self._state.identity.server_key, None, welcome["head"], None)
        if head is None or welcome["restores_from"] != self._from:
            return False
        if len(welcome["restores"]) > MAX_OF_PAGE:
            raise rewritten("it shows more restores at once than a page has")
        known = self._state.values.setdefault("restores", [])
        shown = [self._shown(fact, head) for fact in welcome["restores"]]
        unknown = [each for each in shown if each.leaf not in known] + self._unknown
        if welcome["more_restores"]:
            after = 1 + max((fact["position"] for fact in welcome["restores"]), default=-1)
            self._pages += 1
            if after <= self._from or self._pages > MAX_PAGES:
                raise rewritten("it announces restores that it does not show")
            self._from, self._unknown = after, unknown
            return False
        seen = self._state.seen
        losses = [each for each in unknown if each.position < seen.length]
        if welcome["start"] is None and (head.length, head.root) != (seen.length, seen.root) and losses:
            self._require_approval(losses, unknown)
            self._restored(min(each.position for each in losses))
        elif next_head(self._state.identity.server_key, seen, welcome["head"], welcome["start"]) is None:
            return False
        known += [each.leaf for each in unknown]
        del known[:-MAX_KNOWN]
        self._forget_shown()
        self.is_believed, self.waits_for_owner = True, False
        if self._state.values.pop("isDoubted", False):
            self._tell("server-believed", "the server has proven its history")
        self._state.keep_head(head)
        return True

    def _shown(self, fact: Message, head: Head) -> _Shown:
        try:
            value = json.loads(fact["entry"])
            position = value["position"]
            is_restored = value["type"] == "restored" and type(position) is int and position >= 0
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise rewritten("it shows a restore that cannot be read") from error
        if not is_restored or not is_included(head, fact["position"], fact["entry"], hashes_of(fact["hashes"])):
            raise rewritten("it sent a proof of a restore that does not hold")
        leaf = hashlib.sha256(b"\0" + fact["entry"]).hexdigest()
        return _Shown(leaf, fact["position"], position, self._is_approved(fact, head))

    def _is_approved(self, fact: Message, head: Head) -> bool:
        """Tell whether the owner signed the journal that ends with this fact, and this journal begins with that."""
        approval = fact["approval"]
        if approval is None or self._releases.policy != "required":
            return False
        try:
            length, root = self._releases.approved_log(self._state.identity.fleet, approval["text"])
        except StemmaError:
            return False
        signed = Head(length, bytes(32), root)
        return length == fact["position"] + 1 and is_consistent(signed, head, hashes_of(approval["hashes"]))

    def _require_approval(self, losses: list[_Shown], unknown: list[_Shown]) -> None:
        # An owner who signs a journal signs every restore in it.
        first = min(each.at for each in losses)
        if self._releases.policy != "required" or any(each.is_approved and each.at >= first for each in unknown):
            return
        self.waits_for_owner = True
        raise StemmaError(
            "HISTORY_UNPROVEN",
            "The server says that it was restored. This device demands releases, so it waits for the signature of the "
            "fleet's owner, who signs what `stemma journal restored` writes. It keeps everything until then.",
        )

    def _restored(self, position: int) -> None:
        """Announce and report again what was recorded from that position on."""
        for entry in self._state.values["outbox"].values():
            # Where an earlier release did not note the position: announcing it again is harmless.
            if entry["standing"] in STANDINGS and entry.setdefault("position", position) >= position:
                entry["standing"] = "pending"
        for line in self._state.values["lines"].values():
            line["reported"] = 0
        text = f"the server was restored to position {position}; what it recorded after that is announced again"
        self._tell("server-restored", text)
        for version, lost in self._state.values.get("forgotten", {}).items():
            if lost["position"] >= position:
                self._tell(
                    "model-lost",
                    f"the model {version} of {lost['line']} was released and is deleted here, and it is after the "
                    "state that the server was restored to. Look whether the server still has it: `stemma model show "
                    f"{version[:12]}`; a newer backup may have it",
                )

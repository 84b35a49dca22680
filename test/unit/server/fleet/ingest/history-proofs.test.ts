/** What the server proves to devices, honest and lying ones, and what that costs it. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { HistoryProofs } from "../../../../../server/fleet/ingest/sessions/history-proofs.js";
import { logLeaf, verifyConsistency, verifyInclusion } from "../../../../../shared/journal/merkle-log.js";
import { generateKey } from "../../../../../shared/trust/keys.js";
import { encodeEnvelope } from "../../../../../shared/wire/codec.js";
import {
  maxMessageBytes,
  maxProvenRestores,
  maxRestoreApprovalBytes,
} from "../../../../../shared/wire/limits.js";
import type { Hash } from "../../../../../shared/tensor/tensor.js";
import { seededRandom } from "../../../../helpers/manual-clock.js";
import { TestHistory } from "../../../../helpers/server-history.js";
import { withOverrides } from "../../../../helpers/with-overrides.js";
import { depth } from "../../../../helpers/test-depth.js";

const key = generateKey(seededRandom("history-proofs.test"));
const zeros = "0".repeat(64) as Hash;

describe("the server's proofs", () => {
  it("show that the journal begins with the head that a device names", async () => {
    const history = await TestHistory.start(key);
    for (let grown = 0; grown < 20; grown++) {
      const from = history.journal.head();
      await history.grow(grown);
      const seen = { seenJournalLength: from.length, seenJournalRoot: from.root };
      const { head, start } = await history.proofs.welcome(seen);
      assert.ok(head !== undefined && start !== undefined);
      assert.ok(verifyConsistency({ from, to: head, proof: start.hashes }));
    }
  });

  it("are short and cheap, whatever a device claims to have seen", async () => {
    const history = await TestHistory.start(key);
    await history.grow(100);
    for (let i = 0; i < 40; i++)
      await history.append({ type: "restored", atMs: i, position: i, lostFrom: i });
    const { root, length } = history.journal.head();
    const claims: readonly (readonly [number, Hash | undefined])[] = [
      [length + 1, root],
      [Number.MAX_SAFE_INTEGER, root],
      [7, zeros],
      [7, undefined],
    ];
    for (const [seenJournalLength, seenJournalRoot] of claims) {
      const welcome = await history.welcome({ seenJournalLength, seenJournalRoot });
      const { head, start, restores = [], moreRestores } = welcome;
      assert.equal(start, undefined);
      assert.equal(restores.length, maxProvenRestores, "the oldest");
      assert.equal(moreRestores, true);
      assert.ok(head !== undefined);
      for (const { position, entry, hashes } of restores)
        assert.ok(verifyInclusion({ ...head, position, leaf: logLeaf(entry), proof: hashes }));
      const envelope = { protocol: 1, session: 1, sequence: 1, correlation: "", expiresMs: 0 };
      const bytes = encodeEnvelope({ ...envelope, body: welcome }).length;
      assert.ok(bytes < maxMessageBytes / 3, `${bytes} bytes`);
    }
    const { restores } = await history.proofs.welcome({ seenJournalLength: length, seenJournalRoot: root });
    assert.equal(restores, undefined, "what the device has seen is not shown again");
  });

  it("fit into a message with the longest signatures of the owner", async () => {
    const history = await TestHistory.start(key);
    for (let i = 0; i < 2 * maxProvenRestores; i++) {
      await history.append({ type: "restored", atMs: i, position: i, lostFrom: i });
      await history.approve(() => "x".repeat(maxRestoreApprovalBytes));
    }
    const shown: number[] = [];
    for (let from = 0, isMore = true; isMore; from = (shown.at(-1) ?? 0) + 1) {
      const welcome = await history.welcome({
        seenJournalLength: 9999,
        seenJournalRoot: zeros,
        restoresFrom: from,
      });
      const envelope = { protocol: 1, session: 1, sequence: 1, correlation: "", expiresMs: 0, body: welcome };
      assert.ok(encodeEnvelope(envelope).length < maxMessageBytes);
      shown.push(...(welcome.restores ?? []).map(({ position }) => position));
      isMore = welcome.moreRestores ?? false;
    }
    assert.equal(shown.length, 2 * maxProvenRestores);
  });

  it("show all restores, page by page, also where a device asks from anywhere", async () => {
    const history = await TestHistory.start(key);
    for (let i = 0; i < 2 * maxProvenRestores + 3; i++) {
      await history.grow(i % 3);
      await history.append({ type: "restored", atMs: i, position: i, lostFrom: i });
    }
    const all = history.restores.map(({ factPosition }) => factPosition);
    const shown: number[] = [];
    for (let from = 0, isMore = true; isMore; from = (shown.at(-1) ?? 0) + 1) {
      const birth = { seenJournalLength: 9999, seenJournalRoot: zeros, restoresFrom: from };
      const { restores = [], restoresFrom, moreRestores = false } = await history.proofs.welcome(birth);
      assert.equal(restoresFrom, from);
      assert.ok(restores.length > 0 && restores.length <= maxProvenRestores);
      shown.push(...restores.map(({ position }) => position));
      isMore = moreRestores;
    }
    assert.deepEqual(shown, all);
    for (const restoresFrom of [history.length, Number.MAX_SAFE_INTEGER]) {
      const birth = { seenJournalLength: 9999, seenJournalRoot: zeros, restoresFrom };
      const { restores, moreRestores } = await history.proofs.welcome(birth);
      assert.deepEqual([restores, moreRestores], [undefined, undefined]);
    }
  });

  it("read each restore once and nothing else, for thousands of devices that come back at once", async () => {
    const history = await TestHistory.start(key);
    await history.grow(30);
    await history.append({ type: "restored", atMs: 0, position: 20, lostFrom: 20 });
    await history.grow(30);
    let read = 0;
    const journal = withOverrides(history.journal, {
      readEntry: (position) => {
        read++;
        return history.journal.readEntry(position);
      },
      // What a head costs to sign is not measured here.
      signedHead: () => ({ ...history.journal.head(), publicKey: "", signature: "" }),
    });
    const restores = () => [{ factPosition: 30, position: 20, atMs: 0, isFromBackup: false }];
    const proofs = new HistoryProofs({ journal, restores });
    const devices = depth(3_000, 20_000);
    for (let device = 0; device < devices; device++) {
      const length = device % 60;
      await proofs.welcome({ seenJournalLength: length, seenJournalRoot: history.journal.rootAt(length) });
    }
    assert.equal(read, 1);
  });
});

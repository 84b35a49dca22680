/** Whether a server's history is the one that this device has seen: honest growth, restores, and lies. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { judgeHistory, judgeReceipt, type ServerHistory } from "../../../../agent/session/server-history.js";
import type { OutboxState, SeenHead } from "../../../../agent/outbox/outbox-state.js";
import { isStemmaError } from "../../../../shared/errors.js";
import { sha256 } from "../../../../shared/tensor/hash.js";
import type { Hash } from "../../../../shared/tensor/tensor.js";
import { generateKey } from "../../../../shared/trust/keys.js";
import type { Birth, Receipt, Welcome } from "../../../../shared/wire/messages.js";
import { seededRandom } from "../../../helpers/manual-clock.js";
import { TestHistory } from "../../../helpers/server-history.js";

const key = generateKey(seededRandom("server-history.test"));
type Known = Pick<OutboxState, "seen" | "knownRestores">;

async function historyOf(length: number): Promise<TestHistory> {
  const history = await TestHistory.start(key);
  await history.grow(length);
  return history;
}
const birthOf = (seen: SeenHead | undefined): Pick<Birth, "seenJournalLength" | "seenJournalRoot"> => ({
  seenJournalLength: seen?.length ?? 0,
  seenJournalRoot: seen?.root,
});
const seenOf = (history: TestHistory): SeenHead => history.journal.head();
const welcomeOf = (history: TestHistory, { seen }: Known): Promise<Welcome> => history.welcome(birthOf(seen));
/** As a device asks: for the next page of restores until all were shown. */
async function judgedByPages(history: TestHistory, known: Known): Promise<ServerHistory> {
  let judged = judgeHistory(known, await welcomeOf(history, known));
  while (judged.verdict === "more") {
    const birth = { ...birthOf(known.seen), restoresFrom: judged.shown.from };
    judged = judgeHistory(known, await history.welcome(birth), judged.shown);
  }
  return judged;
}
const verdictOf = async (history: TestHistory, known: Known): Promise<string> =>
  judgeHistory(known, await welcomeOf(history, known)).verdict;

describe("the server's history", () => {
  it("is believed by a device that has seen none, and while it grows", async () => {
    const history = await historyOf(3);
    assert.equal(await verdictOf(history, { seen: undefined, knownRestores: [] }), "continued");
    for (let i = 0; i < 12; i++) {
      const known = { seen: seenOf(history), knownRestores: [] };
      await history.grow(i);
      assert.equal(await verdictOf(history, known), "continued");
    }
  });

  it("is not believed when it went back, and not when it has grown past what was seen", async () => {
    const history = await historyOf(9);
    const copy = await history.copy(6);
    await history.grow(1);
    const known = { seen: seenOf(history), knownRestores: [] };
    for (let grown = 0; grown < 12; grown++) {
      assert.equal(await verdictOf(copy, known), "rewritten", `${copy.length} facts`);
      await copy.append({ type: "session", atMs: 0, device: "thief", session: grown });
    }
  });

  it("is accepted after a restore, once", async () => {
    const history = await historyOf(9);
    const known: Known = { seen: seenOf(history), knownRestores: [] };
    const restored = await history.restored(4);
    await restored.grow(20);
    const judged = judgeHistory(known, await welcomeOf(restored, known));
    assert.ok(judged.verdict === "restored");
    assert.equal(judged.position, 4);
    const later: Known = { seen: seenOf(restored), knownRestores: judged.learned };
    await restored.grow(1);
    assert.equal(await verdictOf(restored, later), "continued");
    const fork = await restored.copy(8);
    await fork.append({ type: "session", atMs: 0, device: "v1", session: 99 });
    await fork.grow(60);
    assert.equal(await verdictOf(fork, later), "rewritten", "the same fact explains nothing again");
    const second = await restored.restored(4);
    await second.grow(40);
    assert.equal(await verdictOf(second, later), "restored", "another restore to the same position");
  });

  it("is accepted after more restores than a welcome shows, and each of them explains nothing again", async () => {
    const history = await historyOf(9);
    const known: Known = { seen: seenOf(history), knownRestores: [] };
    // The first restore explains the difference; the others lost only what came after it.
    let restored = await history.restored(4);
    const forks: TestHistory[] = [];
    for (let count = 1; count < 20; count++) {
      await restored.grow(20);
      restored = await restored.restored(restored.length - 3);
      forks.push(restored);
    }
    const judged = await judgedByPages(restored, known);
    assert.ok(judged.verdict === "restored");
    assert.equal(judged.position, 4);
    assert.equal(judged.learned.length, 20);
    const later: Known = { seen: seenOf(restored), knownRestores: judged.learned };
    for (const fork of forks.slice(0, -1)) {
      await fork.append({ type: "session", atMs: 0, device: "thief", session: 1 });
      const { verdict } = await judgedByPages(fork, later);
      assert.equal(verdict, "rewritten", `the copy with ${fork.restores.length} restores`);
    }
  });

  it("is refused where restores are announced and not shown, and asked for again where another page came", async () => {
    const history = await historyOf(9);
    const known: Known = { seen: seenOf(history), knownRestores: [] };
    let restored = await history.restored(4);
    for (let count = 0; count < 20; count++) restored = await restored.restored(restored.length);
    const first = await welcomeOf(restored, known);
    assert.equal(judgeHistory(known, { ...first, restores: [] }).verdict, "rewritten");
    const judged = judgeHistory(known, first);
    assert.ok(judged.verdict === "more");
    assert.equal(judgeHistory(known, first, judged.shown).verdict, "unanswered", "an answer twice");
    const { from } = judged.shown;
    assert.equal(judgeHistory(known, { ...first, restoresFrom: from }, judged.shown).verdict, "rewritten");
    const endless = { ...judged.shown, pages: 64 };
    const next = await restored.welcome({ ...birthOf(known.seen), restoresFrom: from });
    assert.equal(judgeHistory(known, { ...next, moreRestores: true }, endless).verdict, "rewritten");
  });

  it("remembers restores that lost nothing of this device, so that they explain no later loss", async () => {
    const history = await historyOf(3);
    const known: Known = { seen: seenOf(history), knownRestores: [] };
    await history.grow(9);
    const restored = await history.restored(10);
    const judged = judgeHistory(known, await welcomeOf(restored, known));
    assert.ok(judged.verdict === "continued");
    assert.equal(judged.learned.length, 1);
    await restored.grow(9);
    const later = { seen: seenOf(restored), knownRestores: judged.learned };
    const fork = await restored.copy(15);
    await fork.append({ type: "session", atMs: 0, device: "v1", session: 99 });
    await fork.grow(20);
    assert.equal(await verdictOf(fork, later), "rewritten");
  });

  it("goes back to the earliest of the restores that this device has missed", async () => {
    const history = await historyOf(20);
    const known: Known = { seen: seenOf(history), knownRestores: [] };
    const first = await history.restored(5);
    await first.grow(30);
    const second = await first.restored(15);
    const judged = judgeHistory(known, await welcomeOf(second, known));
    assert.ok(judged.verdict === "restored");
    assert.deepEqual([judged.position, judged.learned.length], [5, 2]);
  });

  it("asks again where the proof starts at another head", async () => {
    const history = await historyOf(3);
    const older = seenOf(history);
    await history.grow(4);
    const known: Known = { seen: seenOf(history), knownRestores: [] };
    await history.grow(4);
    const answer = await history.welcome(birthOf(older));
    assert.equal(judgeHistory(known, answer).verdict, "unanswered");
    // The head that is known already needs no proof.
    const again = { seen: seenOf(history), knownRestores: [] };
    assert.equal(judgeHistory(again, answer).verdict, "continued");
  });

  it("is not believed with a proof that is wrong, too long, too short or for other sizes", async () => {
    const history = await historyOf(11);
    const known: Known = { seen: seenOf(history), knownRestores: [] };
    await history.append({ type: "restored", atMs: 1, position: 2, lostFrom: 2 });
    await history.grow(8);
    const honest = await welcomeOf(history, known);
    const { start, restores = [] } = honest;
    assert.ok(start !== undefined && restores.length === 1);
    const zeros = "0".repeat(64) as Hash;
    const lies: Partial<Welcome>[] = [
      { start: { ...start, hashes: start.hashes.with(0, zeros) } },
      { start: { ...start, hashes: [...start.hashes, zeros] } },
      { start: { ...start, hashes: start.hashes.slice(1) } },
      { start: { ...start, hashes: [] } },
      { start: { ...start, hashes: history.journal.proveStart(11, 15) } },
      { start: undefined },
      { head: undefined },
      ...restores.flatMap((one) => [
        { restores: [{ ...one, position: one.position + 1 }] },
        { restores: [{ ...one, hashes: [] }] },
        { restores: [{ ...one, entry: Buffer.from('{"type":"restored","position":0}') }] },
        { restores: [{ ...one, entry: Buffer.from("{") }] },
      ]),
    ];
    assert.equal(judgeHistory(known, honest).verdict, "continued");
    for (const lie of lies)
      assert.notEqual(judgeHistory(known, { ...honest, ...lie }).verdict, "continued", JSON.stringify(lie));
    const asRestore = judgeHistory(known, { ...honest, start: undefined });
    assert.ok(asRestore.verdict === "restored", "a server may declare a restore, each one once");
    const later = { ...known, knownRestores: asRestore.learned };
    assert.equal(judgeHistory(later, { ...honest, start: undefined }).verdict, "rewritten");
  });
});

describe("a receipt's history", () => {
  const versionId = sha256("version");
  const session = 7;
  async function receiptAfter(
    grown: number,
  ): Promise<{ receipt: Receipt; seen: SeenHead; history: TestHistory }> {
    const history = await historyOf(5);
    const seen = seenOf(history);
    history.sent = seen.length;
    await history.grow(grown);
    return { receipt: await history.receipt(versionId, "recorded", { session }), seen, history };
  }
  const isInvalid = (error: unknown): boolean => isStemmaError(error, "RECEIPT_INVALID");

  it("continues the head that was sent before it, or asks for what was lost between", async () => {
    const { receipt, seen, history } = await receiptAfter(4);
    assert.equal(judgeReceipt(seen, receipt), "continued");
    const { length } = history;
    const next = await history.receipt(sha256("next"), "recorded", { session });
    assert.equal(judgeReceipt(seen, next), "unanswered");
    assert.equal(judgeReceipt(seenOf(history), next), "continued");
    assert.equal(judgeReceipt(seenOf(history), receipt), "older");
    assert.ok(history.length > length);
  });

  it("contradicts the head that was seen, where the server has another history", async () => {
    const { seen, history } = await receiptAfter(4);
    const fork = await history.copy(3);
    await fork.append({ type: "session", atMs: 0, device: "thief", session: 1 });
    fork.sent = seen.length;
    await fork.grow(6);
    assert.equal(judgeReceipt(seen, await fork.receipt(versionId, "recorded", { session })), "contradicts");
    const same = { ...seenOf(fork), root: sha256("other") };
    assert.equal(judgeReceipt(same, await fork.receipt(versionId, "recorded", { session })), "contradicts");
  });

  it("is refused where its fact is not in the journal, or is another version's", async () => {
    const { receipt, seen, history } = await receiptAfter(1);
    const { fact } = receipt;
    assert.ok(fact !== undefined);
    const session9 = await history.journal.readEntry(0);
    const lies: Partial<Receipt>[] = [
      { fact: undefined },
      { start: undefined },
      { head: undefined },
      { versionId: sha256("another") },
      { version: 7 },
      { name: "other" },
      { position: fact.position - 1 },
      { fact: { ...fact, position: fact.position - 1 } },
      { fact: { ...fact, hashes: [] } },
      { fact: { position: 0, entry: session9, hashes: history.journal.proveEntry(0) } },
      { fact: { ...fact, entry: Buffer.from(Buffer.from(fact.entry).toString().replace('"m"', '"n"')) } },
    ];
    for (const lie of lies) assert.throws(() => judgeReceipt(seen, { ...receipt, ...lie }), isInvalid);
  });
});

/** Which receipts a device gets of a version: those that hold now, in order, each proven from the one before. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { Receipts, type ReceiptsParts } from "../../../../../server/fleet/ingest/uploads/receipts.js";
import type { ClaimSummary } from "../../../../../server/storage/repository/claim.js";
import type { VersionSummary } from "../../../../../server/storage/repository/answers/version-answers.js";
import type { DeviceSession } from "../../../../../server/fleet/ingest/sessions/device-sender.js";
import { StemmaError } from "../../../../../shared/errors.js";
import { sha256 } from "../../../../../shared/tensor/hash.js";
import { generateKey } from "../../../../../shared/trust/keys.js";
import type { Receipt } from "../../../../../shared/wire/messages.js";
import { seededRandom } from "../../../../helpers/manual-clock.js";

const signer = generateKey(seededRandom("receipts.test")) as unknown as ReceiptsParts["signer"];
const record = { device: "car", line: "a", name: "m" };
const version = (state: VersionSummary["state"]): VersionSummary =>
  ({
    versionId: sha256("v"),
    name: "m",
    version: 1,
    state,
    position: 3,
    record,
  }) as unknown as VersionSummary;

function receiptsUnderTest({
  isWelcomed = true,
  isReadable = true,
  isProvable = true,
  endsMeanwhile = false,
} = {}) {
  let looks = 0;
  const sent: Receipt[] = [];
  const events: string[] = [];
  const errors: string[] = [];
  const proofsFrom: number[] = [];
  const session: DeviceSession = { session: 1, sequence: 0, ...(isWelcomed ? { provenLength: 5 } : {}) };
  const receipts = new Receipts({
    signer,
    repository: {
      fleet: "f",
      device: () => ({ generation: 2 }),
      journal: {
        readEntry: () =>
          isReadable
            ? Promise.resolve(new Uint8Array(1))
            : Promise.reject(new StemmaError("JOURNAL_CORRUPT", "no")),
      },
      backedUpTo: () => 0,
    } as unknown as ReceiptsParts["repository"],
    sender: {
      send: (_, body) => {
        sent.push(body as Receipt);
        return Promise.resolve(true);
      },
    },
    events: { emit: ({ event }: { readonly event: string }) => events.push(event) },
    log: { error: (event) => errors.push(event) },
    proofs: {
      receipt: (from: number) => {
        if (!isProvable) throw new StemmaError("JOURNAL_CORRUPT", "no");
        proofsFrom.push(from);
        const head = {
          length: from + 2,
          chain: sha256("c"),
          root: sha256("r"),
          publicKey: "",
          signature: "",
        };
        return { head, start: { length: from, hashes: [] }, fact: undefined };
      },
    },
    sessionOf: () => (endsMeanwhile && ++looks > 2 ? undefined : session),
  });
  return { receipts, sent, events, errors, proofsFrom, kinds: () => sent.map(({ kind }) => kind) };
}

describe("the receipts of a version", () => {
  it("are repeated as far as they hold: what is retired is recorded and released, and not stored", async () => {
    for (const [state, expected] of [
      ["recorded", ["recorded"]],
      ["stored", ["recorded", "stored"]],
      ["released", ["recorded", "stored", "released"]],
      ["retired", ["recorded", "released"]],
    ] as const) {
      const { receipts, kinds, proofsFrom } = receiptsUnderTest();
      await receipts.repeat("car", version(state));
      assert.deepEqual(kinds(), expected, state);
      // Each head continues the one that was sent before.
      assert.deepEqual(
        proofsFrom,
        expected.map((_, index) => 5 + 2 * index),
      );
    }
  });

  it("are issued one at a time, with an event of all but the first, which the scheduler tells", async () => {
    const { receipts, kinds, events } = receiptsUnderTest();
    for (const kind of ["recorded", "stored", "released"] as const)
      await receipts.issue(version("released"), kind);
    assert.deepEqual(kinds(), ["recorded", "stored", "released"]);
    assert.deepEqual(events, ["stored", "released"]);
  });

  it("of a claim say that it is recorded, and no more", async () => {
    const { receipts, kinds } = receiptsUnderTest();
    await receipts.claimed({ ...version("recorded"), tensorBytes: 4 } as unknown as ClaimSummary);
    assert.deepEqual(kinds(), ["recorded"]);
  });

  it("are not sent before a welcome, nor without the fact that they prove", async () => {
    const early = receiptsUnderTest({ isWelcomed: false });
    await early.receipts.repeat("car", version("stored"));
    assert.deepEqual([early.sent, early.errors], [[], []]);
    const ended = receiptsUnderTest({ endsMeanwhile: true });
    await ended.receipts.repeat("car", version("released"));
    assert.deepEqual(ended.kinds(), ["recorded"], "the connection ended in between");
    const unreadable = receiptsUnderTest({ isReadable: false });
    await unreadable.receipts.repeat("car", version("stored"));
    assert.deepEqual([unreadable.sent, unreadable.errors], [[], ["receipt-not-sent"]]);
    const unproven = receiptsUnderTest({ isProvable: false });
    await unproven.receipts.repeat("car", version("stored"));
    assert.deepEqual([unproven.sent, unproven.errors], [[], ["receipt-not-sent"]]);
  });
});

/**
 * A device that pins witnesses takes an offer exactly where enough of them cosigned a journal that has the offered
 * version, and that is the one which the server shows it. Journals, positions, heads and signers are drawn.
 */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import fc from "fast-check";
import { requireCosigned } from "../../../../agent/offers/cosigned-offer.js";
import { isStemmaError } from "../../../../shared/errors.js";
import { logLeaf, type LogRoot } from "../../../../shared/journal/merkle-log.js";
import type { MerkleTree } from "../../../../shared/journal/merkle-tree.js";
import { shortenHash } from "../../../../shared/journal/short-hash.js";
import type { Hash } from "../../../../shared/tensor/tensor.js";
import { journalOrigin, signCheckpoint, witnessKeys } from "../../../../shared/trust/checkpoint.js";
import { keyOfSeed } from "../../../../shared/trust/keys.js";
import type { LoggedVersion } from "../../../../shared/wire/messages.js";
import { testWitness } from "../../../helpers/test-witness.js";
import { wholeTree } from "../../../helpers/whole-tree.js";

const server = keyOfSeed("07".repeat(32));
const origin = journalOrigin(server.publicKey, "cars");
const witnesses = [1, 2, 3].map((number) => testWitness(`witness.example/w${number}`));
const pinned = witnessKeys(witnesses.map(({ vkey }) => vkey)) ?? assert.fail();

const versionAt = (position: number): Hash => position.toString(16).padStart(64, "0") as Hash;
const entryAt = (position: number, branch: string): Uint8Array =>
  Buffer.from(
    JSON.stringify({
      type: "recorded",
      atMs: position,
      versionId: shortenHash(versionAt(position)),
      name: branch,
      version: position + 1,
    }),
  );

/** A journal of so many versions; from `fork` on it is another one. */
function journal(length: number, fork = length): MerkleTree {
  const positions = Array.from({ length }, (_, position) => position);
  return wholeTree(positions.map((position) => logLeaf(entryAt(position, position < fork ? "m" : "other"))));
}
const headOf = (tree: MerkleTree, length: number): LogRoot => ({ length, root: tree.root(length) });

interface Case {
  readonly length: number;
  readonly position: number;
  readonly seen: number;
  readonly threshold: number;
  /** Who cosigned, by index; some twice. */
  readonly signers: readonly number[];
}
const cases: fc.Arbitrary<Case> = fc
  .record({ length: fc.integer({ min: 1, max: 40 }), seen: fc.integer({ min: 1, max: 40 }) })
  .chain(({ length, seen }) =>
    fc.record({
      length: fc.constant(length),
      seen: fc.constant(seen),
      position: fc.integer({ min: 0, max: length - 1 }),
      threshold: fc.integer({ min: 1, max: 3 }),
      signers: fc.array(fc.integer({ min: 0, max: 2 }), { maxLength: 6 }),
    }),
  );

/** An honest server's proof. */
function loggedOf(tree: MerkleTree, { length, position, seen, signers }: Case): LoggedVersion {
  const checkpoint = signCheckpoint(server, { origin, ...headOf(tree, length) });
  const [from, to] = [Math.min(length, seen), Math.max(length, seen)];
  return {
    checkpoint: checkpoint + signers.map((index, at) => witnesses[index]?.cosign(checkpoint, at)).join(""),
    fact: { position, entry: entryAt(position, "m"), hashes: tree.inclusionProof(position, length) },
    start: { length: from, hashes: tree.consistencyProof(from, to) },
  };
}

/** The code with which the device refuses; undefined: it takes the offer. */
function refusal(
  one: Case,
  logged: LoggedVersion | undefined,
  seen: LogRoot | undefined,
): string | undefined {
  try {
    requireCosigned({ origin, threshold: one.threshold, witnesses: pinned }, seen, {
      versionId: versionAt(one.position),
      name: "m",
      version: one.position + 1,
      logged,
    });
    return undefined;
  } catch (error) {
    if (!isStemmaError(error)) throw error;
    return error.code;
  }
}

describe("a device that pins witnesses", () => {
  it("takes an offer exactly where so many different witnesses cosigned", () => {
    fc.assert(
      fc.property(cases, (one) => {
        const tree = journal(Math.max(one.length, one.seen));
        const found = refusal(one, loggedOf(tree, one), headOf(tree, one.seen));
        const isEnough = new Set(one.signers).size >= one.threshold;
        assert.equal(found, isEnough ? undefined : "COSIGNATURES_MISSING");
      }),
    );
  });

  it("refuses a version that the cosigned journal does not have there", () => {
    fc.assert(
      fc.property(cases, fc.boolean(), (drawn, isOther) => {
        const one = { ...drawn, signers: [0, 1, 2] };
        const tree = journal(Math.max(one.length, one.seen));
        const logged = loggedOf(tree, one);
        // The fact of another version, or one that is not in this journal.
        const entry = isOther ? entryAt(one.position + 1, "m") : entryAt(one.position, "made up");
        const found = refusal(one, { ...logged, fact: { ...logged.fact, entry } }, headOf(tree, one.seen));
        assert.equal(found, "CHECKPOINT_INVALID");
      }),
    );
  });

  it("refuses a cosigned journal that is not the one which the server shows it", () => {
    fc.assert(
      fc.property(cases, fc.nat(), (drawn, at) => {
        const one = { ...drawn, signers: [0, 1, 2] };
        const shorter = Math.min(one.length, one.seen);
        const tree = journal(Math.max(one.length, one.seen));
        const shown = journal(Math.max(one.length, one.seen), at % shorter);
        const logged = loggedOf(tree, one);
        assert.equal(refusal(one, logged, headOf(shown, one.seen)), "HISTORY_UNPROVEN");
        assert.equal(
          refusal(one, { ...logged, start: undefined }, headOf(tree, one.seen)),
          "HISTORY_UNPROVEN",
        );
        assert.equal(refusal(one, logged, undefined), "HISTORY_UNPROVEN");
        assert.equal(refusal(one, undefined, headOf(tree, one.seen)), "COSIGNATURES_MISSING");
      }),
    );
  });
});

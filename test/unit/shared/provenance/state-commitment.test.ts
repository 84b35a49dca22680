/** Commitments to states are read as written, and one that no training gives is refused before it costs anything. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import {
  decodeCommitment,
  encodeCommitment,
  segmentCount,
  type StateCommitment,
} from "../../../../shared/provenance/state-commitment.js";
import { isStemmaError } from "../../../../shared/errors.js";
import { sha256 } from "../../../../shared/tensor/hash.js";
import { leafOf, type LeafParts } from "../../../../shared/train/state-leaf.js";

const last: LeafParts = {
  position: {
    epoch: 2,
    iteration: 5,
    order: null,
    best: { epoch: 1, loss: 0.25 },
    streams: { order: 12, "dropout-1": 40 },
  },
  optimizer: {
    name: "adam",
    iterations: 5,
    shared: { beta1Product: 0.59049, beta2Product: 0.995009990004999 },
  },
  weights: sha256("weights"),
  best: sha256("best"),
  slots: sha256("slots"),
};
const commitment: StateCommitment = {
  engine: sha256("engine"),
  everySteps: 2,
  steps: 5,
  leaves: [sha256("0"), sha256("2"), sha256("4"), leafOf(last)],
  last,
};
const refused = (bytes: Uint8Array): void => {
  assert.throws(
    () => decodeCommitment(bytes),
    (error) => isStemmaError(error, "PROVENANCE_INVALID"),
  );
};
const changed = (change: object): Uint8Array =>
  Buffer.from(
    JSON.stringify({
      ...(JSON.parse(Buffer.from(encodeCommitment(commitment)).toString()) as object),
      ...change,
    }),
  );

describe("a commitment to states", () => {
  it("is read as it was written", () => {
    assert.deepEqual(decodeCommitment(encodeCommitment(commitment)), {
      kind: "stemma-states",
      format: 1,
      ...commitment,
    });
    assert.equal(segmentCount(commitment), 3);
  });

  it("is refused where it is none that a training gives", () => {
    const { leaves } = commitment;
    refused(new Uint8Array(2 ** 20 + 1));
    refused(Buffer.from("{"));
    refused(changed({ format: 2 }));
    refused(changed({ engine: "x" }));
    refused(changed({ steps: 7 }));
    refused(changed({ everySteps: 0 }));
    refused(changed({ leaves: leaves.slice(1) }));
    refused(changed({ leaves: [leaves[0], leaves[0], leaves[2], leaves[3]] }));
    refused(changed({ leaves: Array.from({ length: 10_000 }, (_, at) => sha256(String(at))) }));
    refused(changed({ last: { ...last, weights: sha256("others") } }));
    const later = { ...last, position: { ...last.position, iteration: 6 } };
    refused(changed({ last: later, leaves: [...leaves.slice(0, 3), leafOf(later)] }));
  });

  it("has a leaf that each part changes, but for streams that gave nothing and the order of names", () => {
    const { position } = last;
    const others: readonly LeafParts[] = [
      { ...last, weights: sha256("x") },
      { ...last, best: null },
      { ...last, slots: sha256("x") },
      { ...last, optimizer: { ...last.optimizer, iterations: 4 } },
      { ...last, optimizer: { ...last.optimizer, shared: { beta1Product: 0.59049 } } },
      { ...last, position: { ...position, epoch: 3 } },
      { ...last, position: { ...position, order: { countBefore: 0, used: 4 } } },
      { ...last, position: { ...position, best: { epoch: 1, loss: 0.26 } } },
      { ...last, position: { ...position, streams: { order: 12, "dropout-1": 41 } } },
    ];
    assert.equal(new Set([last, ...others].map(leafOf)).size, others.length + 1);
    const same = {
      ...last,
      position: { ...position, streams: { "dropout-1": 40, augmentation: 0, order: 12 } },
    };
    assert.equal(leafOf(same), leafOf(last));
  });
});

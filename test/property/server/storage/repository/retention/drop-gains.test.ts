/** The gains of drops: what is shared counts once for all, so that drops that pay each also pay together. */
import assert from "node:assert/strict";
import { it } from "node:test";
import fc from "fast-check";
import "../../../../../helpers/property-seed.js";
import {
  gainsOf,
  pays,
  proofBytes,
  type DropWeight,
  type SizedObject,
} from "../../../../../../server/storage/repository/retention/drop-gains.js";
import { sha256 } from "../../../../../../shared/tensor/hash.js";

const objectOf = (kind: string, number: number): SizedObject => ({
  id: sha256(`${kind} ${number}`),
  bytes: 1000 * number,
});
const numbers = fc.uniqueArray(fc.integer({ min: 0, max: 8 }), { maxLength: 5 });
const weights = fc.array(fc.record({ frees: numbers, keeps: numbers }), { maxLength: 8 }).map((drawn) =>
  drawn.map(({ frees, keeps }, number): DropWeight => ({
    versionId: sha256(`version ${number}`),
    frees: frees.map((each) => objectOf("tensor", each)),
    keeps: keeps.map((each) => objectOf("data", each)),
  })),
);
const totalOf = (objects: readonly SizedObject[]): number =>
  [...new Map(objects.map(({ id, bytes }) => [id, bytes])).values()].reduce((sum, bytes) => sum + bytes, 0);

it("adds up to what goes and what stays, and what pays alone with others pays with all of them", () => {
  fc.assert(
    fc.property(weights, (all) => {
      const gains = [...gainsOf(all).values()];
      const freed = gains.reduce((sum, { freedBytes }) => sum + freedBytes, 0);
      const kept = gains.reduce((sum, { keptBytes }) => sum + keptBytes, 0) - proofBytes * all.length;
      // Each is rounded.
      assert.ok(Math.abs(freed - totalOf(all.flatMap(({ frees }) => frees))) <= all.length);
      assert.ok(Math.abs(kept - totalOf(all.flatMap(({ keeps }) => keeps))) <= all.length);
      if (gains.every(pays)) assert.ok(freed >= kept);
    }),
  );
});

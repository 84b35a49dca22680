/** Segments of samples: their names, and which are dropped at the limits. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import fc from "fast-check";
import "../../../helpers/property-seed.js";
import { segmentFirstIndex, segmentName } from "../../../../agent/intake/segment.js";
import { planRetention, type SegmentInfo } from "../../../../agent/intake/retention.js";

describe("segments", () => {
  it("names segments so that names sort like indices", () => {
    fc.assert(
      fc.property(fc.nat(), fc.nat(), (a, b) => {
        assert.equal(segmentName(a) < segmentName(b), a < b);
        assert.equal(segmentFirstIndex(segmentName(a)), a);
      }),
    );
  });
});

describe("retention", () => {
  it("never drops a pinned segment or the newest, and stops as soon as the limits are met", () => {
    const segments = fc
      .array(fc.record({ bytes: fc.nat(100), newestMs: fc.nat(100) }), { minLength: 1, maxLength: 12 })
      .map((list) =>
        list.map((one, at): SegmentInfo => ({
          ...one,
          name: String(at),
          firstIndex: at * 10,
          endIndex: at * 10 + 10,
        })),
      );
    fc.assert(
      fc.property(segments, fc.nat(120), fc.nat(600), (list, pinAt, maxBytes) => {
        const pin = { from: pinAt, to: pinAt + 5 };
        const { drop, bytes } = planRetention(list, [pin], { maxBytes, maxAgeMs: null }, 0);
        for (const name of drop) {
          const { firstIndex, endIndex } = list[Number(name)] as SegmentInfo;
          assert.ok(endIndex <= pin.from || firstIndex >= pin.to);
        }
        assert.ok(!drop.includes(String(list.length - 1)));
        const last = drop.at(-1);
        if (last !== undefined) assert.ok(bytes + (list[Number(last)] as SegmentInfo).bytes > maxBytes);
      }),
    );
  });
});

/** A storage plan as text: what it gains and costs, in one line. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { describeGain } from "../../../../server/cli/storage-plan-text.js";
import type { ArchiveSummary } from "../../../../server/storage/archive/archive-plan.js";

const summary: ArchiveSummary = {
  versions: 3,
  tensors: 30,
  unreadable: 0,
  tensorBytes: 31.5e6,
  bytesNow: 31.5e6,
  bytesPlanned: 21.7e6,
  rewrittenTensors: 12,
  rewrittenBytes: 9e6,
  kinds: [],
  materialised: { meanUs: 7000, largestUs: 9000 },
  now: { meanUs: 10_000, largestUs: 20_000 },
  planned: { meanUs: 31_000, largestUs: 60_000 },
  diskNeeded: 18e6,
  applyMs: 1800,
};

describe("the first line of a plan", () => {
  it("states bytes and rebuild time before and after, and how long applying takes", () => {
    assert.equal(
      describeGain(summary),
      "gain      31.5 MB → 21.7 MB (69 %); rebuild 10 ms → 31 ms; apply 1.8 s",
    );
    assert.match(describeGain({ ...summary, now: null }), /; rebuild 31 ms; apply/);
    assert.match(describeGain({ ...summary, bytesPlanned: 40e6 }), /^grows {5}31\.5 MB → 40\.0 MB \(127 %\)/);
    assert.match(describeGain({ ...summary, rewrittenTensors: 0 }), /^nothing {3}to gain: 31\.5 MB/);
  });

  it("fits into 80 columns, whatever the sizes", () => {
    for (const scale of [1e-6, 1e-3, 1, 1e3, 1e6]) {
      const scaled = {
        ...summary,
        bytesNow: Math.round(summary.bytesNow * scale),
        bytesPlanned: Math.round(summary.bytesPlanned * scale),
        now: { meanUs: 10_000 * scale, largestUs: 0 },
        planned: { meanUs: 31_000 * scale, largestUs: 0 },
        applyMs: 1800 * scale,
      };
      const line = describeGain(scaled);
      assert.ok(line.length <= 80, `${line.length} columns: ${line}`);
    }
  });
});

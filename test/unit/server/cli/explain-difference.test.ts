/** The list of decisions says what was found and what was not looked at, and names no cause that is not recorded. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import {
  explainReplay,
  explainVersions,
  explanationLines,
  type Explanation,
} from "../../../../server/cli/explain-difference.js";
import type { ReplayReport } from "../../../../server/interface/api/models/evaluation-schemas.js";
import { compareRuns } from "../../../../shared/determinism/reproduce/criteria.js";
import type { Hash } from "../../../../shared/tensor/tensor.js";

const verdicts = ({ points }: Explanation): Record<string, string> =>
  Object.fromEntries(points.map(({ point, verdict }) => [point, verdict]));
const report = (more: Partial<ReplayReport>): ReplayReport => ({
  versionId: "0".repeat(64) as Hash,
  name: "m",
  version: 1,
  verdict: "refuted",
  text: "the reason",
  ...more,
});
const difference = { tensors: 2, first: "w", largest: { tensor: "w", difference: 0.25 } };
const alike = { differences: { times: { a: 1, b: 2 } }, redacted: [], sameStory: true };

describe("an explanation", () => {
  it("of two versions names each seeded cause at its point, and none where none is recorded", () => {
    const comparison = compareRuns({ totals: {} }, { totals: {} }, { compared: 3, differing: 1, first: "w" });
    const field = (name: string, a?: string, b?: string) => ({ field: name, a, b });
    for (const [fields, provenance, expected] of [
      [[field("library.numpy", "2.1.0", "2.1.1")], alike, /cause: versions\.$/],
      [[field("loadOrder", "a,b", "b,a")], alike, /cause: load order\.$/],
      [[field("kernel", "6.1", "6.8"), field("cpu", "x", "x")], alike, /cause: machine\.$/],
      [
        [],
        { ...alike, differences: { parameters: { epochs: { value: { a: 10, b: 15 } } } } },
        /cause: provenance\.$/,
      ],
      [[field("cpu", "x", "x"), field("gpu", "g")], alike, /what was not looked at or is not recorded/],
    ] as const) {
      const explanation = explainVersions({
        comparison,
        provenance,
        metrics: [],
        fields,
        checkpoints: undefined,
      });
      assert.match(explanation.conclusion, expected);
      assert.equal(verdicts(explanation)["predictions"], "not looked at");
    }
    assert.equal(
      verdicts(
        explainVersions({
          comparison,
          provenance: undefined,
          metrics: [],
          fields: [],
          checkpoints: undefined,
        }),
      )["provenance"],
      "not looked at",
    );
  });

  it("names the last equal and the first different checkpoint", () => {
    const weightsOf = (more: Partial<ReplayReport>): string | undefined =>
      explainReplay(report({ grade: "different", ...more }), []).points.find(
        ({ point }) => point === "weights",
      )?.text;
    const checkpoints = { compared: 4, lastEqual: 200, firstDifferent: 300 };
    assert.match(
      weightsOf({ difference, checkpoints }) ?? "",
      /in w; equal after 200 steps, different after 300, by 4 checkpoints$/,
    );
    assert.match(
      weightsOf({ difference, checkpoints: { compared: 4, firstDifferent: 100 } }) ?? "",
      /; the first of 4 checkpoints differs, after 100 steps$/,
    );
    assert.match(
      weightsOf({ checkpoints: { compared: 4, lastEqual: 400 } }) ?? "",
      /; 4 checkpoints are equal$/,
    );
  });

  it("of a replay says where it differs, and concludes nothing where nothing ran", () => {
    const refuted = explainReplay(
      report({ grade: "different", difference, members: ["metadata.metric.after", "state"] }),
      [],
    );
    assert.deepEqual(verdicts(refuted), {
      predictions: "not looked at",
      weights: "different",
      evaluations: "different",
      provenance: "different",
      versions: "not looked at",
      "load order": "not looked at",
      machine: "not looked at",
    });
    const proved = explainReplay(report({ verdict: "proved", grade: "bit-exact" }), []);
    assert.match(proved.conclusion, /equal bit for bit, and nothing that was looked at differs/);
    const elsewhere = explainReplay(report({ verdict: "proved", grade: "bit-exact" }), [
      { field: "kernel", a: "6.1", b: "6.8" },
    ]);
    assert.match(elsewhere.conclusion, /equal bit for bit, although these differ: machine\.$/);
    const unknown = explainReplay(report({ verdict: "unreplayable", reason: "data-missing" }), []);
    assert.deepEqual(new Set(Object.values(verdicts(unknown))), new Set(["not looked at"]));
    assert.match(unknown.conclusion, /nothing is concluded/);
    assert.ok(explanationLines(unknown)[1]?.endsWith("not looked at: the reason"));
  });
});

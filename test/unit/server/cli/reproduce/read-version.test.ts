/** Stored versions as runs: evaluations on the same samples alone are compared, and totals are those of a file. */
import assert from "node:assert/strict";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test, type TestContext } from "node:test";
import { describeVersion, readVersion } from "../../../../../server/cli/reproduce/read-version.js";

const confusion = [
  [1, 0],
  [1, 0],
];
const evaluationOf = (content: string, hasPredictions: boolean) => ({
  evaluation: content,
  data: { content, evaluated: 2 },
  hasPredictions,
  measures: { task: "classification", samples: 2, correct: 1, confusion },
});

type Evaluations = readonly ReturnType<typeof evaluationOf>[];

/** A server that has one version of this many evaluations. */
function serverWith(evaluations: Evaluations) {
  const predictions = {
    rows: [
      [0.9, 0.1],
      [0.8, 0.2],
    ],
    actual: [[0], [1]],
  };
  const answers: Record<string, unknown> = {
    model: { versionId: "v", name: "m", version: 1, measurements: [{ iteration: 0, epoch: 1, loss: 0.5 }] },
    evaluations,
    evaluation: { predictions: evaluations.some((each) => each.hasPredictions) ? predictions : null },
  };
  const recover = () => ({ chunks: [new Uint8Array(8)], report: Promise.resolve() });
  const context = {
    call: (name: string) => Promise.resolve(answers[name]),
    operations: () => Promise.resolve({ recover: () => Promise.resolve(recover()) }),
  };
  return context as unknown as Parameters<typeof describeVersion>[1];
}

async function recordOf(t: TestContext, own: Evaluations, others?: Evaluations) {
  const folder = await mkdtemp(join(tmpdir(), "stemma-version-test-"));
  t.after(() => rm(folder, { recursive: true, force: true }));
  const context = serverWith(own);
  const other = others && (await describeVersion("n", serverWith(others)));
  return (await readVersion(await describeVersion("m", context), folder, context, other)).record;
}

test("predictions and measures of a version are those of its evaluation", async (t) => {
  const { samples, totals, course } = await recordOf(t, [evaluationOf("a", true)]);
  assert.deepEqual(samples?.get("1"), { actual: "1", predicted: "0", outputs: [0.8, 0.2] });
  assert.deepEqual(totals.overall, { samples: 2, correct: 1 });
  assert.deepEqual(totals.classes?.get("1"), { samples: 1, correct: 0 });
  assert.equal(course?.losses.length, 1);
});

test("an evaluation on other samples is not compared", async (t) => {
  const own = [evaluationOf("a", false), evaluationOf("b", false)];
  const shared = await recordOf(t, own, [evaluationOf("b", false)]);
  assert.deepEqual([shared.samples, shared.totals.overall], [undefined, { samples: 2, correct: 1 }]);
  assert.deepEqual((await recordOf(t, own, [evaluationOf("c", false)])).totals, {});
});

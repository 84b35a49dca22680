/** Figures that are not finite: JSON has none, so they come as null over HTTP, and must not be shown as zero. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { evaluationReport } from "../../../../server/interface/api/models/evaluation-schemas.js";
import { detailsOf } from "../../../../server/cli/commands/model/evaluate.js";
import { figureText } from "../../../../server/cli/figure-text.js";
import type { Evaluation } from "../../../../shared/train/evaluation.js";

test("an infinite metric passes its schema over HTTP, and is shown as not finite", () => {
  const metric = { name: "mean absolute error", unit: "%", lowerIsBetter: true, value: Infinity };
  const received = JSON.parse(JSON.stringify(metric)) as { value: number | null };
  assert.equal(evaluationReport.shape.metric.safeParse(received).success, true);
  assert.equal(figureText(received.value, "%"), "not finite");
  assert.equal(figureText(Infinity, "%"), "not finite");
  assert.equal(figureText(1.5, "%"), "1.500 %");
});

test("an error that is not finite is never shown as zero", () => {
  const evaluation = {
    task: "regression",
    samples: 1,
    meanAbsoluteError: Infinity,
    rootMeanSquareError: Infinity,
    r2: null,
  };
  const received = JSON.parse(JSON.stringify(evaluation)) as Evaluation;
  for (const each of [evaluation as Evaluation, received])
    assert.match(detailsOf(each)[0] ?? "", /error not finite, R² -/);
});

import assert from "node:assert/strict";
import { test } from "node:test";
import { describeMetric, describeWire } from "../../../../server/demo/demo-table.js";

test("what came over the wire stands beside the whole model, with its share", () => {
  assert.equal(describeWire(75_200, 158_000), "75.2 kB / 158 kB (48 %)");
  assert.equal(describeWire(undefined, 158_000), "- / 158 kB");
  assert.equal(describeWire(0, 0), "0 B / 0 B (0 %)");
});

test("a model without figures has none", () => {
  assert.equal(describeMetric({}), "-");
  assert.equal(
    describeMetric(
      { "metric.name": "accuracy", "metric.unit": "%", "metric.before": 50, "metric.after": 75 },
      40,
    ),
    "accuracy 40.0 % → 75.0 %",
  );
});

/** The tables of the demo: their figures, and their width. */
import assert from "node:assert/strict";
import { test } from "node:test";
import {
  describeMetric,
  describeWire,
  renderDemoTables,
  type DemoRow,
} from "../../../../../server/cli/demo/demo-table.js";

test("bytes on the wire are shown with the complete model's bytes and their share", () => {
  assert.equal(describeWire(75_200, 158_000), "75.2 kB / 158 kB (48 %)");
  assert.equal(describeWire(undefined, 158_000), "- / 158 kB");
  assert.equal(describeWire(0, 0), "0 B / 0 B (0 %)");
});

test("a model without figures shows none", () => {
  assert.equal(describeMetric({}), "-");
  assert.equal(
    describeMetric(
      { "metric.name": "accuracy", "metric.unit": "%", "metric.before": 50, "metric.after": 75 },
      40,
    ),
    "accuracy 40.0 % → 75.0 %",
  );
});

test("the tables fit 80 columns and show every figure of a version", () => {
  const model = {
    versionId: "0".repeat(64),
    name: "front-cam-vehicle-1",
    version: 12,
    tensorBytes: 158_000,
    record: { device: "vehicle-1", line: "front-cam", approach: "snapshot", bases: [] },
  } as unknown as DemoRow["model"];
  const proof = {
    versionId: model.versionId,
    exact: true,
    comparedWith: "the device's own file",
    report: { steps: { load: 4, rebuild: 2000 } },
  } as unknown as NonNullable<DemoRow["proof"]>;
  const text = renderDemoTables([
    {
      model,
      figures: { wireBytes: 157_900, tensorBytes: 158_000, tookMs: 850 },
      metric: "SoH error 13.1 % → 11.9 %",
      proof,
    },
    { model, figures: undefined, metric: "accuracy 99.5 % → 100.0 %", proof: undefined },
  ]);
  for (const line of text.split("\n")) assert.ok(line.length <= 80, `${line.length} columns: ${line}`);
  for (const shown of [
    "vehicle-1",
    "front-cam-vehicle-1:12",
    "snapshot",
    "158 kB / 158 kB (100 %)",
    "850 ms",
    "2.0 s",
    "SoH error 13.1 % → 11.9 %",
    "yes",
    "not picked",
  ])
    assert.ok(text.includes(shown), shown);
});

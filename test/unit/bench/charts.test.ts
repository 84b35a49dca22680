/** The benchmarks' charts: labels cover nothing, what was not measured says so, panels do not mix units. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { placeLabels } from "../../bench/chart-labels.js";
import { barChart } from "../../bench/codec-chart.js";
import { tradeOffChart } from "../../bench/planner-chart.js";

describe("the labels of a chart", () => {
  it("cover neither markers nor each other where twelve points crowd within 30 pixels", () => {
    const points = Array.from({ length: 12 }, (_, at) => ({
      x: 100 + (at % 4) * 10,
      y: 100 + Math.floor(at / 4) * 10,
      label: String(at),
    }));
    const labels = placeLabels(points, 10);
    assert.equal(labels.length, points.length);
    const boxes = labels.map(({ at, x, y }) => ({
      left: x,
      right: x + points[at]!.label.length * 6.2,
      top: y - 8,
      bottom: y,
    }));
    const markers = points.map(({ x, y }) => ({ left: x - 4, right: x + 4, top: y - 4, bottom: y + 4 }));
    boxes.forEach((box, at) => {
      for (const other of [...boxes.slice(0, at), ...markers])
        assert.ok(
          box.right <= other.left + 0.01 ||
            other.right <= box.left + 0.01 ||
            box.bottom <= other.top + 0.01 ||
            other.bottom <= box.top + 0.01,
          `label ${at} covers something`,
        );
    });
  });
});

describe("the charts", () => {
  it("of the codec states which bar was not measured, and has its legend within the picture", () => {
    const series = ["gzip", "zstd", "ZipNN", "bound", "Stemma", "Stemma, low rank"];
    const svg = barChart("t", series, [
      { name: "a", values: [1, 2, undefined, 4, 5, 6] },
      { name: "b", values: [1, 2, 3, 4, 5, 6] },
    ]);
    assert.equal([...svg.matchAll(/ZipNN: not measured/g)].length, 1);
    const width = Number(/viewBox="0 0 (\d+)/.exec(svg)?.[1]);
    for (const [, x] of svg.matchAll(/<rect x="([\d.]+)" y="[\d.]+" width="10"/g))
      assert.ok(Number(x) < width - 30);
  });

  it("of the planner explains every algorithm that it names", () => {
    const points = [{ ratio: 1, storage: 1, recreation: 1, isWithinBudgets: true }];
    const svg = tradeOffChart("t", [{ name: "LAST", meaning: "light tree", points }]);
    assert.ok(svg.includes("LAST: light tree"));
  });
});

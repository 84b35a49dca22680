/** The evaluation flows: who is trained from whom, what an update changes, and the aims. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { flowSteps, standardFlow } from "../../bench/flows-plan.js";
import {
  medianOfRuns,
  type DistributedFigures,
  type DistributedUseCase,
} from "../../bench/flows-distributed.js";
import {
  distributedChart,
  distributedMarkdown,
  distributedReaches,
  distributedText,
  type DistributedResults,
} from "../../bench/flows-distributed-report.js";
import type { PictureFigures } from "../../bench/flows-pictures.js";
import { picturesChart, picturesMarkdown, withPictures } from "../../bench/flows-pictures-report.js";
import type { ProvenanceFigures } from "../../bench/flows-provenance.js";
import {
  flowChart,
  flowsMarkdown,
  flowsText,
  reachesOf,
  type FlowResults,
} from "../../bench/flows-report.js";
import type { RecoveryFigures } from "../../bench/flows-home.js";
import { flowModels, type UseCaseFigures } from "../../bench/flows-standard.js";
import { byteLengthOf, shapesOf } from "../../bench/model-shapes.js";

describe("the flow", () => {
  it("has ten models on one node, and U2 is trained from U1 (MM2)", () => {
    const steps = flowSteps(standardFlow);
    assert.deepEqual(
      steps.map(({ useCase, from, depth }) => [useCase, from, depth]),
      [
        ["U1", undefined, 0],
        ["U3-1-1", 0, 1],
        ["U3-1-2", 1, 2],
        ["U3-1-3", 2, 3],
        ["U3-1-4", 3, 4],
        ["U2", 0, 1],
        ["U3-2-1", 5, 2],
        ["U3-2-2", 6, 3],
        ["U3-2-3", 7, 4],
        ["U3-2-4", 8, 5],
      ],
    );
  });

  it("has 102, 202 and 402 models on 5, 10 and 20 nodes; each node's chains begin at U1 and at U2", () => {
    for (const [nodes, models] of [
      [5, 102],
      [10, 202],
      [20, 402],
    ] as const) {
      const steps = flowSteps({ nodes, perPhase: 10 });
      assert.equal(steps.length, models);
      const depthsOf = (useCase: string): readonly number[] =>
        steps.filter((step) => step.useCase === useCase).map(({ depth }) => depth);
      assert.deepEqual(depthsOf("U3-1-10"), new Array(nodes).fill(10));
      assert.deepEqual(depthsOf("U3-2-10"), new Array(nodes).fill(11));
      const firstOf = new Set(steps.filter(({ useCase }) => useCase === "U3-2-1").map(({ from }) => from));
      assert.deepEqual(
        [...firstOf].map((from) => steps[from as number]?.useCase),
        ["U2"],
      );
    }
  });

  it("changes all tensors, or the two of the last layer, which have MMlib's sizes", () => {
    const steps = flowSteps({ nodes: 1, perPhase: 1 });
    const changed = (update: "full" | "partial"): readonly number[] =>
      flowModels("mobilenet-v2", update, steps).map((model) => model.changed.length);
    assert.deepEqual(changed("full"), [262, 262, 262, 262]);
    assert.deepEqual(changed("partial"), [262, 2, 2, 2]);
    const lastLayer = (model: string): number =>
      shapesOf(model)
        .slice(-2)
        .reduce((sum, shape) => sum + byteLengthOf(shape) / 4, 0);
    assert.deepEqual(
      ["mobilenet-v2", "googlenet", "resnet-18", "resnet-50", "resnet-152"].map(lastLayer),
      [1_281_000, 1_025_000, 513_000, 2_049_000, 2_049_000],
    );
  });
});

function useCase(name: string, recoverMs: number): UseCaseFigures {
  return {
    useCase: name,
    depth: 1,
    storedBytes: 2_100_000,
    changedBytes: 2_000_000,
    codedBytes: 1_000_000,
    save: { extractMs: 10, persistMs: 20 },
    saveFloorMs: 20,
    recover: { loadMs: 1, rebuildMs: 0, checkEnvironmentMs: 0, verifyMs: recoverMs - 1 },
    recoverFloorMs: 10,
  };
}

const recovery = (ms: number): RecoveryFigures => ({
  recover: { loadMs: ms, rebuildMs: 0, checkEnvironmentMs: 0, verifyMs: 0 },
  recoverFloorMs: 1_000,
});

const results: FlowResults = {
  rounds: 1,
  flows: [
    {
      model: "resnet-152",
      update: "partial",
      approach: "update",
      modelBytes: 100_000_000,
      useCases: [useCase("U1", 15), useCase("U3-1-1", 15), useCase("U3-1-2", 25), useCase("U3-1-4", 25)],
    },
  ],
  coded: [
    {
      model: "resnet-152",
      update: "partial",
      rawBytes: 300_000_000,
      codedBytes: 250_000_000,
      useCases: [
        { useCase: "U1", chain: 0, raw: recovery(800), coded: recovery(900) },
        { useCase: "U3-1-1", chain: 1, raw: recovery(900), coded: recovery(1_900) },
        { useCase: "U3-1-2", chain: 2, raw: recovery(1_000), coded: recovery(2_000) },
      ],
    },
  ],
  depths: [
    {
      depth: 50,
      update: "full",
      firstMs: 10,
      deepMs: 11,
      opened: { firstMs: 20, deepMs: 22 },
      oneTensor: { firstMs: 2, deepMs: 3 },
    },
  ],
};

/** With the longest names and numbers. */
const widest: FlowResults = {
  ...results,
  flows: [
    {
      ...results.flows[0]!,
      model: "mobilenet-v2",
      approach: "snapshot",
      useCases: [
        { ...useCase("U3-1-1", 999), codedBytes: 241_000_000, save: { extractMs: 0, persistMs: 999 } },
      ],
    },
  ],
};

const provenance: ProvenanceFigures = {
  pictures: 256,
  modelBytes: 9_000_000,
  useCases: [
    {
      useCase: "U1",
      depth: 0,
      wireBytes: undefined,
      hasData: false,
      trainMs: 9_000,
      replayMs: 8_000,
      recoverMs: 8_000,
    },
    {
      useCase: "U3-1-1",
      depth: 1,
      wireBytes: 660_000,
      hasData: true,
      trainMs: 7_000,
      replayMs: 6_000,
      recoverMs: 6_000,
    },
    {
      useCase: "U3-1-2",
      depth: 2,
      wireBytes: 65_000,
      hasData: false,
      trainMs: 7_000,
      replayMs: 6_000,
      recoverMs: 3_599_000,
    },
  ],
};

const pictures: PictureFigures = {
  ...{ name: "CO-512", useCase: "U3", pictures: 512, side: 216, pixelBytes: 71_663_616 },
  ...{ codedBytes: 121_828_147, storyBytes: 76_000, sentBytes: 8_000_000, modelBytes: 9_000_000 },
  ...{ trainMs: 80_000, replayMs: 120_000 },
};

const arrived = (useCase: string): DistributedUseCase => ({
  useCase,
  saveMs: 1_234,
  saveFloorMs: 617,
  reportMs: 99_900,
  wireBytes: 14_200_000,
  recoverMs: 999,
  recoverFloorMs: 333,
});
const distributed: DistributedResults = {
  rounds: 3,
  flows: [
    {
      nodes: 20,
      perPhase: 10,
      approach: "snapshot",
      models: 402,
      modelBytes: 14_155_936,
      lost: 0,
      storedBytes: 14_200_000,
      serverBytes: 513_000_000,
      wallMs: 1,
      fineTunes: [arrived("U3-1-1"), arrived("U3-2-10")],
      onServer: [{ ...arrived("U2"), reportMs: 0, wireBytes: 0 }],
    },
  ],
};

describe("the report of the distributed flow", () => {
  it("says what was lost and what memory the server took, and has U2 in a table of its own", () => {
    assert.deepEqual(
      distributedReaches(distributed).map(({ measured, isMet }) => [measured, isMet]),
      [
        ["0 of 402", true],
        ["513 MB", false],
      ],
    );
    const markdown = distributedMarkdown(distributed, "chart.svg", "Measured somewhere.");
    const [before, onServer, fineTunes] = markdown.split(/## U1 and U2|## All fine-tunes/) as [
      string,
      string,
      string,
    ];
    assert.ok(before.includes("(chart.svg)") && before.includes("| 2.00 |"));
    assert.ok(onServer.includes("| U2 |") && !onServer.includes("| U3-"));
    assert.ok(fineTunes.includes("| U3-2-10 |") && !fineTunes.includes("| U2 |"));
    for (const line of distributedText(distributed).split("\n")) assert.ok(line.length <= 80, line);
    assert.equal([...distributedChart(distributed).matchAll(/>2-10</g)].length, 3);
  });

  it("is of the medians of several runs, and of the worst memory and loss", () => {
    const [one] = distributed.flows as [DistributedFigures];
    const runs = [
      one,
      { ...one, lost: 1, serverBytes: 1, storedBytes: 3, fineTunes: [{ ...arrived("U3-1-1"), saveMs: 5 }] },
      { ...one, storedBytes: 2, fineTunes: [{ ...arrived("U3-1-1"), saveMs: 7 }] },
    ];
    const median = medianOfRuns(runs);
    assert.deepEqual([median.lost, median.serverBytes, median.storedBytes], [1, 513_000_000, 3]);
    assert.equal(median.fineTunes[0]?.saveMs, 7);
  });
});

describe("the report of the flows", () => {
  it("counts what a fine-tune by provenance takes with its data, without them, and where they stay (MM3)", () => {
    const markdown = flowsMarkdown({ ...results, provenance }, new Map());
    for (const text of ["| 660 kB | 7.33 % |", "| 65.0 kB | 0.72 % |", "| 9.00 MB | 100.00 % |"])
      assert.ok(markdown.includes(text), text);
    for (const line of flowsText({ ...results, provenance }).split("\n")) assert.ok(line.length <= 80, line);
  });

  it("has the data of MMlib's sizes in a section of its own, which is measured alone too", () => {
    const section = picturesMarkdown([pictures], "chart.svg", "Measured then.");
    const row = "| CO-512 | U3 | 71.7 MB | 122 MB | 76.0 kB | 8.00 MB | 9.00 MB | 1.50 × | 80 s | 120 s |";
    assert.ok(section.includes(row), section);
    assert.ok(section.includes("1.70 bytes a pixel"));
    const report = flowsMarkdown({ ...results, provenance }, new Map(), section);
    const other = picturesMarkdown([{ ...pictures, sentBytes: 7_000_000 }], undefined, "Measured later.");
    const again = withPictures(report, other);
    assert.equal(again, report.replace(section, other));
    assert.throws(() => withPictures(flowsMarkdown(results, new Map()), other), /no section/);
    for (const line of flowsText({ ...results, pictures: [pictures] }).split("\n"))
      assert.ok(line.length <= 80, line);
    for (const figures of [[pictures], [pictures, pictures]])
      assert.doesNotMatch(picturesChart(figures), /NaN|undefined|d=""/);
    // A line through one point is not seen: there is a marker.
    assert.equal(picturesChart([pictures]).match(/<path d="[^"]+z" fill="none"/g)?.length, 4);
  });

  it("has recoveries from an encoded store beside those before, and the days of a measurement in parts", () => {
    const markdown = flowsMarkdown({ ...results, days: ["2026-11-20", "2026-11-24"] }, new Map());
    const row = "| resnet-152 | partial | 300 MB | 250 MB | 2 | 900 ms | 1900 ms | 0.90 → 1.90 |";
    assert.ok(markdown.includes(row), markdown);
    assert.ok(markdown.includes(", 2026-11-20 to 2026-11-24"));
    const longest = { ...results.coded[0]!, model: "mobilenet-v2" as const };
    for (const line of flowsText({ ...results, coded: [longest] }).split("\n"))
      assert.ok(line.length <= 80, line);
  });

  it("says which aims are met, by the medians of the fine-tunes", () => {
    assert.deepEqual(
      reachesOf(results).map(({ measured, isMet }) => [measured, isMet]),
      [
        ["2.10 %", true],
        ["1.10 %", true],
        ["1.50 ×", true],
        ["2.50 ×", false],
        ["1.10 ×", true],
        ["1.10 ×", true],
        ["1.50 ×", false],
      ],
    );
  });

  it("names every use case in table and chart, and MMlib's figures", () => {
    const markdown = flowsMarkdown(results, new Map([["resnet-152", "flows-resnet-152.svg"]]));
    for (const text of ["U3-1-4", "241,863,473 B", "(flows-resnet-152.svg)", "missed"])
      assert.ok(markdown.includes(text), text);
    assert.ok(markdown.includes("1.50 → 2.50"));
    for (const line of flowsText(widest).split("\n")) assert.ok(line.length <= 80, line);
    const chart = flowChart("resnet-152", results.flows);
    assert.equal([...chart.matchAll(/>U3-1-4</g)].length, 3);
    assert.ok(!chart.includes("NaN"));
  });
});

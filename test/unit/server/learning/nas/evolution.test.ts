/** Aged evolution and search spaces: what is proposed, who leaves, and which spaces are refused. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import {
  populationAfter,
  propose,
  type SearchSettings,
  type Trained,
} from "../../../../../server/learning/nas/evolution.js";
import { exampleSpace } from "../../../../../server/learning/nas/example-space.js";
import {
  candidateModel,
  candidatesIn,
  readSearchSpace,
} from "../../../../../server/learning/nas/search-space.js";
import { Streams } from "../../../../../shared/random/streams.js";

const settings: SearchSettings = {
  strategy: "evolution",
  population: 4,
  sample: 2,
  drop: "oldest",
  seed: "1",
};
const space = readSearchSpace(exampleSpace, "the example");
const qualities = [3, 9, 1, null, 7, 1, 8];
const trained: readonly Trained[] = qualities.map((quality, candidate) => ({
  candidate,
  choices: exampleSpace.stages.map(() => 0),
  quality,
}));

describe("aged evolution", () => {
  it("lets the oldest go, or the oldest of the worst", () => {
    const members = (drop: SearchSettings["drop"]): readonly number[][] => {
      const population = populationAfter(trained, { population: 4, drop });
      return [population.members.map(({ candidate }) => candidate), [...population.leavers]];
    };
    assert.deepEqual(members("oldest"), [
      [3, 4, 5, 6],
      [0, 1, 2],
    ]);
    assert.deepEqual(members("worst"), [
      [0, 1, 4, 6],
      [3, 2, 5],
    ]);
  });

  it("begins with random candidates, then changes one stage of a good one", () => {
    for (let candidate = 0; candidate < 4; candidate++)
      assert.equal(propose(candidate, [], { space, settings }).parent, undefined);
    const parents = new Set<number>();
    for (let candidate = 4; candidate < 60; candidate++) {
      const { parent, choices } = propose(candidate, trained, { space, settings });
      parents.add(parent!);
      const before = trained[parent!]!.choices;
      assert.equal(choices.filter((choice, stage) => choice !== before[stage]).length, 1);
      choices.forEach((choice, stage) => {
        assert.ok(choice < exampleSpace.stages[stage]!.options.length);
      });
    }
    assert.deepEqual(
      [...parents].toSorted(),
      [4, 6],
      "of two members that were trained, never the worst, never one that failed",
    );
  });

  it("proposes the same for the same number, and goes on where no member could be trained", () => {
    const ask = (): unknown => propose(9, trained, { space, settings });
    assert.deepEqual(ask(), ask());
    const failed = trained.map((each) => ({ ...each, quality: null }));
    assert.equal(propose(9, failed, { space, settings }).parent, undefined);
    assert.equal(
      propose(9, trained, { space, settings: { ...settings, strategy: "random" } }).parent,
      undefined,
    );
  });
});

describe("a search space", () => {
  it("gives every candidate an architecture, and equal ones for equal choices", () => {
    assert.equal(candidatesIn(space), 5184);
    const seen = new Map<string, string>();
    for (let candidate = 0; candidate < 200; candidate++) {
      const { choices } = propose(candidate, [], { space, settings: { ...settings, strategy: "random" } });
      const { architecture, tensors } = candidateModel(space, choices, new Streams("1", candidate));
      assert.equal(tensors.length, architecture.layers.flatMap(({ weights }) => weights).length);
      const text = JSON.stringify(architecture);
      assert.equal(seen.get(choices.join()) ?? text, text);
      seen.set(choices.join(), text);
    }
  });

  const stages = (...options: unknown[]): unknown => ({ ...exampleSpace, stages: [{ name: "a", options }] });
  for (const [what, value, why] of [
    ["no object", 3, /expected object/],
    ["another format", { ...exampleSpace, format: 2 }, /format/],
    ["no stage", { ...exampleSpace, stages: [] }, /stages/],
    ["a block that is unknown", stages([{ attention: 8 }]), /stages\.0\.options\.0\.0/],
    ["two kinds in one block", stages([{ dense: 8, pool: "max" }]), /stages\.0\.options\.0\.0/],
    ["too many filters", stages([{ convolution: 1e6, kernel: 3 }]), /stages\.0\.options\.0\.0/],
    [
      "names that occur twice",
      { ...exampleSpace, stages: [...exampleSpace.stages, ...exampleSpace.stages] },
      /same name/,
    ],
    [
      "a convolution after a dense layer",
      stages([{ dense: 8 }, { convolution: 4, kernel: 3 }]),
      /image is needed/,
    ],
    [
      "a residual block that changes the shape",
      stages([{ residual: [{ pool: "max" }] }]),
      /residual block makes/,
    ],
    ["more pooling than pixels", stages(Array.from({ length: 6 }, () => ({ pool: "max" }))), /pooled again/],
  ] as const)
    it(`is refused with ${what}`, () => {
      assert.throws(() => readSearchSpace(value, "space.json"), {
        code: "SEARCH_SPACE_INVALID",
        message: why,
      });
    });
});

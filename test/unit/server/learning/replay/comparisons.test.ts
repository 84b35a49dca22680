/** What a replay is compared by: tensors, and the members of two provenances. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { differingMembers as compareTrees } from "../../../../../server/learning/replay/compare-stories.js";
import {
  compareTensors,
  type ComparedTensor,
} from "../../../../../server/learning/replay/compare-tensors.js";
import { treeOfStory, type DescriptionSource } from "../../../../../server/learning/replay/told-story.js";
import { makeProvenance } from "../../../../../shared/provenance/make-provenance.js";
import { openProvenance, type OpenedProvenance } from "../../../../../shared/provenance/openings.js";
import type { CommittedMembers } from "../../../../../shared/provenance/provenance.js";
import { sha256, tensorId } from "../../../../../shared/tensor/hash.js";
import { sourceOfTensor, type Tensor } from "../../../../../shared/tensor/tensor.js";

const float32 = (...values: number[]): Tensor => ({
  dtype: "F32",
  shape: [values.length],
  bytes: new Uint8Array(Float32Array.from(values).buffer),
});
const recorded = (path: string, tensor: Tensor): ComparedTensor => ({
  path,
  name: `tensor ${path}`,
  id: tensorId(tensor, tensor.bytes),
  source: sourceOfTensor(tensor),
});

test("tensors: equal bits are equal; a sign of zero, a bit of a NaN, another shape and a missing one are not", async () => {
  const notANumber = float32(NaN, 1);
  const otherNotANumber = { ...notANumber, bytes: notANumber.bytes.slice() };
  otherNotANumber.bytes[0] = 1;
  for (const [original, replayed, difference] of [
    [float32(1, 2), float32(1, 2), undefined],
    [notANumber, notANumber, undefined],
    [float32(0, 2), float32(-0, 2), 0],
    [float32(1, 2), float32(1.5, 1.75), 0.5],
    [float32(1, 2), float32(NaN, 2), Number.MAX_VALUE],
    [notANumber, otherNotANumber, 0],
  ] as const) {
    const found = await compareTensors(
      [recorded("0/0", original)],
      new Map([["0/0", sourceOfTensor(replayed)]]),
    );
    assert.deepEqual(
      found,
      difference === undefined
        ? undefined
        : { tensors: 1, first: "tensor 0/0", largest: { tensor: "tensor 0/0", difference } },
    );
  }
  const [one, two] = [float32(1), float32(2)];
  assert.deepEqual(
    await compareTensors([recorded("a", one), recorded("b", two)], new Map([["c", sourceOfTensor(two)]])),
    {
      tensors: 3,
      first: "tensor a",
    },
  );
  const reshaped = sourceOfTensor({ ...float32(1, 2), shape: [2, 1] });
  assert.deepEqual(await compareTensors([recorded("a", float32(1, 2))], new Map([["a", reshaped]])), {
    tensors: 1,
    first: "tensor a",
  });
});

function differingMembers(
  original: OpenedProvenance,
  replayed: OpenedProvenance,
  description: DescriptionSource = "reader",
): readonly string[] {
  return compareTrees(treeOfStory({ opened: original }), treeOfStory({ opened: replayed }), description);
}

test("members: what a replay must repeat is compared, what it cannot repeat is not", () => {
  const opened = (members: CommittedMembers, version = "1"): OpenedProvenance => {
    const { provenance, openings } = makeProvenance(
      {
        engine: sha256("engine"),
        recipe: { name: "r", version },
        exactness: "wasm",
        bases: [],
        data: [sha256("data")],
        environment: sha256(version),
      },
      members,
      { bytes: (count) => new Uint8Array(count) },
    );
    return openProvenance(provenance, openings);
  };
  const story: CommittedMembers = {
    parameters: { epochs: { value: 2, from: "call" }, rate: { value: 0.5, from: "default" } },
    random: { seed: "1", invocation: 0, streams: { shuffle: 20 } },
    course: { iterations: 10 },
    data: [{ reader: "x", samples: { train: 5 } }],
    times: { endedAtMs: 1, workMs: 2 },
    by: null,
  };
  const original = opened(story);
  const repeated: CommittedMembers = {
    ...story,
    parameters: { epochs: { value: 2, from: "file" }, rate: { value: 0.5, from: "default" } },
    data: [{ reader: "x", name: "elsewhere", samples: { train: 5 } }],
    times: { endedAtMs: 8, workMs: 9 },
    by: { who: "ann", through: "command" },
  };
  assert.deepEqual(differingMembers(original, opened(repeated)), []);
  const named = (...names: string[]): OpenedProvenance => {
    const columns = [...names.map((name) => ({ name, role: "input" })), { name: "y", role: "target" }];
    return opened({ data: [{ reader: "x", columns }] });
  };
  assert.deepEqual(differingMembers(named("a", "b"), named("a", "b")), []);
  assert.deepEqual(differingMembers(named("a", "b"), named("a", "c")), ["data.0.columns.1.name"]);
  assert.deepEqual(differingMembers(named("a", "b"), named("b", "a")), [
    "data.0.columns.0.name",
    "data.0.columns.1.name",
  ]);
  assert.deepEqual(differingMembers(named("a", "b"), named("c"), "none"), []);
  assert.deepEqual(
    differingMembers(
      original,
      opened(
        {
          ...repeated,
          parameters: { epochs: { value: 3, from: "call" } },
          random: { seed: "1", invocation: 0, streams: { shuffle: 20, dropout: 1 } },
          data: [{ reader: "x", samples: { train: 6 } }],
        },
        "2",
      ),
    ),
    [
      "provenance.recipe.version",
      "parameters.epochs.value",
      "parameters.rate.value",
      "random.streams.dropout",
      "data.0.samples.train",
    ],
  );
  const { course: _, ...hidden } = story;
  assert.deepEqual(differingMembers(opened(hidden), original), []);
});

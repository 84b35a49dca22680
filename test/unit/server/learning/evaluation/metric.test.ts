// The name of an evaluation's main metric: the one that the training of the model, or of its nearest
// ancestor, recorded, if that was of the same kind.
import assert from "node:assert/strict";
import { test } from "node:test";
import { metricOf } from "../../../../../server/learning/evaluation/metric.js";
import { encodeMetadata, type ModelMetadata } from "../../../../../shared/model/metadata.js";
import type { Evaluation } from "../../../../../shared/train/evaluation.js";
import type { VersionSummary } from "../../../../../server/storage/repository/answers/version-answers.js";
import type { FleetRepository } from "../../../../../server/storage/repository/fleet-repository.js";
import type { Hash } from "../../../../../shared/tensor/tensor.js";

const id = (n: number): Hash => n.toString(16).padStart(64, "0") as Hash;
type MetadataOrRetired = ModelMetadata | "retired" | undefined;
/** A line of versions, newest first, with the metadata of each. */
function line(...metadata: readonly MetadataOrRetired[]): Pick<FleetRepository, "lineage" | "objects"> {
  const versions = metadata.map((each, at) => ({
    versionId: id(at),
    state: each === "retired" ? "retired" : "stored",
    record: { objects: each === undefined ? {} : { metadata: id(at) } },
  }));
  const read = async (_kind: string, hash: Hash): Promise<Uint8Array> => {
    const found = metadata[Number.parseInt(hash, 16)];
    if (found === undefined || found === "retired") throw new Error("it is gone");
    return encodeMetadata(found);
  };
  return {
    lineage: () => versions as unknown as readonly VersionSummary[],
    objects: { read } as unknown as FleetRepository["objects"],
  };
}
const trained = (name: string, lowerIsBetter: boolean): ModelMetadata => ({
  "metric.name": name,
  "metric.unit": "%",
  "metric.lowerIsBetter": lowerIsBetter,
});
const regression: Evaluation = {
  task: "regression",
  samples: 4,
  meanAbsoluteError: 0.025,
  rootMeanSquareError: 0.03,
  r2: 0.5,
};
const nameOf = async (...metadata: readonly MetadataOrRetired[]): Promise<string> =>
  (await metricOf(line(...metadata), { versionId: id(0) }, regression)).name;

test("is the model's own, else that of the nearest ancestor that states one", async () => {
  assert.deepEqual(
    await metricOf(
      line(undefined, trained("SoH error", true), trained("older", true)),
      { versionId: id(0) },
      regression,
    ),
    { name: "SoH error", unit: "%", lowerIsBetter: true, value: 2.5 },
  );
  assert.equal(await nameOf({ note: "a reduced one" }, "retired", trained("SoH error", true)), "SoH error");
});

test("is not that of an ancestor that measured something else; without any, the task decides", async () => {
  assert.equal(await nameOf(trained("accuracy", false)), "mean absolute error");
  assert.equal(await nameOf(), "mean absolute error");
  const classification = {
    task: "classification",
    samples: 4,
    correct: 3,
    accuracy: 0.75,
    classes: [],
    confusion: [],
  } as const;
  assert.deepEqual(await metricOf(line(trained("SoH error", true)), { versionId: id(0) }, classification), {
    name: "accuracy",
    unit: "%",
    lowerIsBetter: false,
    value: 75,
  });
});

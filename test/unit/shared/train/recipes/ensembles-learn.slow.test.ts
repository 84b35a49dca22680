/**
 * Ensembles learn, are repeated to the same bytes by any number of workers, and their members are the inner recipe's
 * own trainings with contiguous invocation counts (ME9), whatever else uses that recipe meanwhile. By workers:
 * ensembles.slow.test.ts.
 */
import assert from "node:assert/strict";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, it } from "node:test";
import { nodeFiles } from "../../../../../shared/files/node-files.js";
import { defaultNames } from "../../../../../shared/model/model-json-export.js";
import { Streams } from "../../../../../shared/random/streams.js";
import type { Hash, Tensor } from "../../../../../shared/tensor/tensor.js";
import { canonicalSamples } from "../../../../../shared/train/datasets/canonical-samples.js";
import { loadDataset } from "../../../../../shared/train/datasets/registry.js";
import { columnsOf, membersOf } from "../../../../../shared/train/ensembles/ensemble-model.js";
import { memberSamples } from "../../../../../shared/train/ensembles/train-member.js";
import { runTraining, type TrainedModel } from "../../../../../shared/train/run-training.js";
import type { TrainingJob } from "../../../../../shared/train/training.js";
import { drawn } from "../../../../helpers/test-depth.js";
import { refusal } from "../datasets/dataset-fixtures.js";
import { ensembleTrainings, hashOf, job } from "./ensemble-trainings.js";

const { tf, folder, tables, trainHere, isRepeated } = ensembleTrainings();
const { classes, numbers, labels } = tables;
/** The ensemble that also trains in the engine's process: one that the run's seed draws, or each. */
const inChild = new Set(drawn(["regression", "subspaces", "chain", "sequences", "columns"], 1));
const small = { members: 3, epochs: 4 };

describe("ensembles", () => {
  it("predict numbers, labels and sequences", async () => {
    const regression = { ...small, inner: "linear-regression" };
    const { result } = await isRepeated(
      inChild.has("regression"),
      job("bagging", numbers(), { parameters: { ...regression, epochs: 20, learningRate: 1 } }),
      "cb51cb7c8b86bd33",
    );
    assert.deepEqual([result.metric?.name, result.metric?.unit], ["mean absolute error", ""]);
    assert.ok(result.metric!.after < 1, `${result.metric!.after} in the target's unit`);
    await isRepeated(
      inChild.has("subspaces"),
      job("random-subspaces", numbers(), {
        parameters: { ...regression, inner: "factorization-regression", shareThousandths: 700 },
      }),
      "f73060d9eb51edc8",
    );
    const { result: chain } = await isRepeated(
      inChild.has("chain"),
      job("bagging", labels(), { parameters: { ...small, inner: "classifier-chain", epochs: 10 } }),
      "bfaba4e8198f892e",
    );
    const [output] = chain.evaluation!.after.task === "general" ? chain.evaluation!.after.outputs : [];
    assert.ok(output?.evaluation.task === "multi-label" && output.evaluation.labels.length === 2);
    const cells = { reader: "battery-simulated", parameters: { vehicle: 1, cycles: 100, cells: 1 } };
    await isRepeated(
      inChild.has("sequences"),
      job("bagging", cells, {
        parameters: { members: 2, epochs: 8, inner: "sequence-regression", units: 4 },
      }),
      "128cd6c95db1d3a2",
    );
  });

  it("have members that are the inner recipe's trainings of invocations i, i + 1, …", async () => {
    const training = job("bagging", classes(), { parameters: { ...small, patience: 2 } });
    // Another user of the inner recipe trains between any two steps of the members (ME9).
    const inner = job("logistic-regression", classes(), { parameters: { epochs: 1 } });
    let outside = 0;
    const disturbed = await trainHere(training, {
      onProgress: async ({ phase, iteration = 0 }) => {
        if (phase !== "training" || iteration % 100 !== 50) return;
        outside++;
        await trainHere({ ...inner, invocation: training.invocation + (outside % 3) });
      },
    });
    assert.ok(outside > 3, `${outside}`);
    const { architecture, tensors } = disturbed.model;
    assert.equal(hashOf(tensors), hashOf((await trainHere(training)).model.tensors));
    const { set } = await loadDataset(classes(), nodeFiles());
    for (const [index, { firstTensor, tensorCount }] of membersOf(architecture).entries()) {
      const invocation = training.invocation + index;
      const drawn = memberSamples(
        set,
        { columns: undefined, drawn: set.train.count },
        new Streams(training.seed, invocation),
      );
      const location = join(folder(), `member-${index}.samples`);
      await writeFile(location, canonicalSamples(drawn));
      const alone = await trainHere({
        ...inner,
        dataset: { reader: "canonical", parameters: {}, location },
        parameters: { epochs: small.epochs, patience: 2 },
        invocation,
      });
      assert.equal(
        hashOf(tensors.slice(firstTensor, firstTensor + tensorCount)),
        hashOf(alone.model.tensors),
        `member ${index}`,
      );
    }
  });

  it("see some columns each, and are named by member", async () => {
    const training = job("random-subspaces", classes(), {
      parameters: { ...small, members: 6, shareThousandths: 667 },
    });
    const { model, result } = await isRepeated(inChild.has("columns"), training, "2860e1a87c48e34d");
    const seen = membersOf(model.architecture).map(({ selection }) =>
      columnsOf(model.tensors[selection as number] as Tensor),
    );
    assert.ok(seen.every((columns) => columns.length === 2));
    assert.ok(new Set(seen.map(String)).size > 1, JSON.stringify(seen));
    assert.deepEqual(defaultNames(model.architecture).leaves.slice(0, 4), [
      "member_0_dense_1/kernel",
      "member_0_dense_2/kernel",
      "member_0_dense_2/bias",
      "member_1_dense_4/kernel",
    ]);
    const random = result.provenance["random"] as { readonly streams: Readonly<Record<string, number>> };
    assert.ok((random.streams["member/5/columns"] ?? 0) > 0, JSON.stringify(random.streams));
  });

  it("count one vote for each member where that is asked for", async () => {
    const parameters = { ...small, members: 4 };
    const mean = await trainHere(job("bagging", classes(), { parameters }));
    const majority = await trainHere(
      job("bagging", classes(), { parameters: { ...parameters, vote: "majority" } }),
    );
    const weights = ({ model }: TrainedModel): string[] =>
      membersOf(model.architecture).map(({ firstTensor, tensorCount }) =>
        hashOf(model.tensors.slice(firstTensor, firstTensor + tensorCount)),
      );
    assert.deepEqual(weights(majority), weights(mean), "the vote does not change the members");
    assert.equal(majority.model.tensors.length, mean.model.tensors.length + 4);
    assert.ok(majority.result.metric!.after > 60);
  });

  it("continue from an ensemble, and refuse other models, data and parameters", async () => {
    const base = await trainHere(job("bagging", classes(), { parameters: small }));
    const fine = (training: TrainingJob): Promise<TrainedModel> =>
      runTraining(
        training,
        { model: base.model },
        {
          tf: tf(),
          files: nodeFiles(),
          monotonic: () => performance.now(),
          engine: "0".repeat(64) as Hash,
          backend: { backend: "wasm", reason: "test" },
          environment: {},
        },
      );
    const tuned = await fine(job("bagging", classes(), { parameters: { epochs: 2 }, invocation: 1 }));
    assert.notEqual(hashOf(tuned.model.tensors), hashOf(base.model.tensors));
    const refused = refusal("RECIPE_PARAMETERS_INVALID");
    await assert.rejects(fine(job("random-subspaces", classes())), refused);
    const single = await trainHere(job("logistic-regression", classes()));
    await assert.rejects(
      runTraining(
        job("bagging", classes()),
        { model: single.model },
        {
          tf: tf(),
          files: nodeFiles(),
          monotonic: () => 0,
          engine: "0".repeat(64) as Hash,
          backend: { backend: "wasm", reason: "test" },
          environment: {},
        },
      ),
      refused,
    );
    for (const wrong of [
      job("bagging", numbers()),
      job("bagging", classes(), { parameters: { inner: "k-means" } }),
      job("bagging", classes(), { parameters: { members: 1 } }),
      job("bagging", classes(), { parameters: { checkpointEveryEpochs: 1 } }),
      job("bagging", classes(), { parameters: { keepOptimizer: true } }),
      job("bagging", classes(), { parameters: { columns: 3 } }),
      job("random-subspaces", classes(), { parameters: { shareThousandths: 1001 } }),
    ])
      await assert.rejects(trainHere(wrong), refused, JSON.stringify(wrong.parameters));
  });
});

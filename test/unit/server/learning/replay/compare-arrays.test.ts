/** The arrays of two states after the same step: of a device that alters one layer's gradient, and of none. */
import assert from "node:assert/strict";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import { bisectSegment } from "../../../../../server/learning/replay/bisect-segment.js";
import type { PreparedTraining } from "../../../../../server/learning/replay/train-again.js";
import { StemmaError } from "../../../../../shared/errors.js";
import { compareArrays, describeArrays } from "../../../../../server/learning/replay/compare-arrays.js";
import { stateAfterInChild } from "../../../../../shared/determinism/probe/state-after-in-child.js";
import { stateAfter } from "../../../../../shared/determinism/probe/state-after.js";
import type { StateAfter } from "../../../../../shared/determinism/probe/state-after-job.js";
import { nodeFiles } from "../../../../../shared/files/node-files.js";
import { sha256 } from "../../../../../shared/tensor/hash.js";
import { startWasmBackend, type StartedBackend } from "../../../../../shared/train/backends/wasm.js";
import { chooseBackend } from "../../../../../shared/train/backends/choose.js";
import { fuseActivations } from "../../../../../shared/train/backends/fused-layers.js";
import { beginTraining } from "../../../../../shared/train/run-training.js";
import type { TensorFlow } from "../../../../../shared/train/tensorflow.js";
import { segmentsInChild } from "../../../../../shared/train/train-in-child.js";
import { packArrays, packLeaves, unpackArrays } from "../../../../../shared/wire/kept-states.js";
import { job as jobOf } from "../../../shared/train/engine-runs.js";

const parameters = { epochs: 1, units: 4, patience: 0 };
const job = jobOf({ parameters });
let backend: StartedBackend;
let work: string;
before(async () => {
  backend = await startWasmBackend();
  work = await mkdtemp(join(tmpdir(), "stemma-arrays-"));
});
after(async () => {
  backend.close();
  await rm(work, { recursive: true, force: true });
});

const portsOf = (tf: TensorFlow) => ({
  ...{ tf, fuseActivations, files: nodeFiles(), monotonic: () => 0, environment: {} },
  ...{ engine: sha256("engine"), backend: chooseBackend({}) },
});

/** TensorFlow.js whose gradient of one variable, counted from the first, is doubled in one step. */
function alteringGradient(tf: TensorFlow, at: number, inStep: number): TensorFlow {
  let step = 0;
  return new Proxy(tf, {
    get(target, name, receiver) {
      if (name !== "variableGrads") return Reflect.get(target, name, receiver) as unknown;
      return (...asked: Parameters<TensorFlow["variableGrads"]>) => {
        const found = target.variableGrads(...asked);
        const variable = asked[1]?.[at]?.name ?? "";
        const honest = found.grads[variable];
        if (++step !== inStep || honest === undefined) return found;
        found.grads[variable] = target.mul(honest, 2);
        honest.dispose();
        return found;
      };
    },
  });
}

const answerOf = ({ leaf, arrays }: StateAfter) =>
  unpackArrays(
    JSON.parse(
      JSON.stringify(
        packArrays(
          leaf,
          arrays.map(({ hash }) => hash),
        ),
      ),
    ),
  );

async function compared(tf: TensorFlow, parametersOfBoth: typeof parameters & { clipNorm?: number }) {
  const training = { ...job, parameters: parametersOfBoth };
  const wanted = { state: undefined, step: 2, isEnd: false };
  const here = await stateAfter(training, undefined, portsOf(backend.tf), wanted);
  const there = await stateAfter(training, undefined, portsOf(tf), wanted);
  const { start, model } = await beginTraining(training, undefined, portsOf(backend.tf));
  model.dispose();
  return compareArrays(start.architecture, here!, answerOf(there!)!);
}

describe("the arrays of two states", () => {
  it("name the layer whose gradient a device alters", async () => {
    const found = await compared(alteringGradient(backend.tf, 3, 2), { ...parameters, clipNorm: 0 });
    assert.deepEqual(found, {
      ...{ of: 18, differing: 3 },
      layers: [{ layer: "layer 2 (Dense)", weights: ["kernel"] }],
    });
    assert.equal(
      describeArrays(found),
      "3 of 18 arrays of weights and optimizer differ, last first: layer 2 (Dense): kernel",
    );
  });

  it("tell how many layers and weights are not named", () => {
    const layer = (at: number, weights: number) => ({
      layer: `layer ${at} (Bidirectional)`,
      weights: Array.from({ length: weights }, (_, i) => `w${i}`),
    });
    const text = describeArrays({
      of: 9,
      differing: 9,
      layers: [6, 4, 1, 1, 1].map((n, i) => layer(9 - i, n)),
    });
    assert.match(
      text,
      /layer 9 \(Bidirectional\): w0, w1, w2, w3 and 2 more; layer 8 .*w3; .*; and 1 layer before these$/,
    );
  });

  it("name all layers where gradients are clipped to a norm that all of them share", async () => {
    const found = await compared(alteringGradient(backend.tf, 3, 2), { ...parameters, clipNorm: 1e-6 });
    assert.deepEqual([found?.differing, found?.layers.length], [18, 3]);
  });

  it("are left out, and not the step, where the device does not give them", async () => {
    let asked = 0;
    const command = () =>
      asked++ === 0
        ? Promise.resolve({ code: "", result: packLeaves([sha256("x"), sha256("y")]) })
        : Promise.reject(new StemmaError("TIMED_OUT", "x"));
    const fleet = { isOnline: () => true, command };
    const segment = { index: 0, job: { fromStep: 0, toStep: 2, isLast: false } };
    const architecture = () => assert.fail("nothing came");
    const device = { device: "van", versionId: sha256("version"), model: "soh:2" };
    const training = { job, options: { workFolder: work } } as unknown as PreparedTraining;
    const found = await bisectSegment({ fleet, ...device, segment, architecture }, training);
    assert.match(found ?? "", /in step 1\. States do not tell/);
    assert.equal(asked, 2);
  });

  it("are the same for an honest device, and not compared with others", async () => {
    const found = await compared(backend.tf, parameters);
    assert.deepEqual(found, { of: 18, differing: 0, layers: [] });
    assert.match(describeArrays(found), /^no array of weights or optimizer differs/);
    const state = { leaf: sha256("a"), arrays: [{ name: "weight/9/9", hash: sha256("b") }] };
    assert.equal(compareArrays({ layers: [], outputs: [] }, state, { hashes: [] }), undefined);
    assert.equal(compareArrays({ layers: [], outputs: [] }, state, { hashes: ["00"] }), undefined);
    assert.deepEqual(
      answerOf({ ...state, arrays: new Array(5000).fill(state.arrays[0]) as never })?.hashes,
      [],
    );
    assert.equal(unpackArrays({ leaf: state.leaf, arrays: "AAAA" }), undefined);
    assert.equal(unpackArrays({ leaves: "" }), undefined);
  });

  it("are those of the states that the engine gives, within a training and at its end", async () => {
    const whole = { fromStep: 0, toStep: 1000, isLast: true, everySteps: 1 };
    const [run] = await segmentsInChild(job, [whole], { workFolder: work });
    const last = run!.leaves.at(-1)!;
    for (const { step, leaf } of [run!.leaves[1]!, last]) {
      const wanted = { training: job, step, isEnd: step === last.step };
      assert.equal((await stateAfterInChild(wanted, { workFolder: work }))?.leaf, leaf);
    }
    const beyond = { training: job, step: last.step + 1, isEnd: false };
    assert.equal(await stateAfterInChild(beyond, { workFolder: work }), undefined);
    const limited = stateAfterInChild(beyond, { workFolder: work, memoryLimitMb: 0.001 });
    await assert.rejects(limited, { code: "MEMORY_EXHAUSTED" });
  });
});

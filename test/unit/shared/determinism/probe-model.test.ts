/** Probes find the layer and operation that give something else, in every kind of graph, and nothing elsewhere. */
import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { probeDifferences, type ProbeDifference } from "../../../../shared/determinism/compare-probes.js";
import { bytesOfValues } from "../../../../shared/determinism/figures.js";
import { decodeProbe, encodeProbe, type ProbeSummary } from "../../../../shared/determinism/probe-summary.js";
import { StemmaError } from "../../../../shared/errors.js";
import type { Architecture } from "../../../../shared/model/model.js";
import { sha256 } from "../../../../shared/tensor/hash.js";
import type { Tensor } from "../../../../shared/tensor/tensor.js";
import { startWasmBackend, type StartedBackend } from "../../../../shared/train/backends/wasm.js";
import type { WasmBackend } from "../../../../shared/train/kernels/kernel-registry.js";
import type { TensorFlow } from "../../../../shared/train/tensorflow.js";
import { hasCode } from "../../../helpers/object-stores.js";
import {
  denseOn,
  folded,
  inputLayer,
  layerOn,
  modelOf,
  probeHere,
  states,
  twins,
  weight,
} from "../../../helpers/probed-models.js";

let backend: StartedBackend;
let tf: TensorFlow;
before(async () => {
  backend = await startWasmBackend();
  tf = backend.tf;
});
after(() => {
  backend.close();
});

const probe = (architecture: Architecture): ProbeSummary => probeHere(tf, { architecture });
const differences = (a: ProbeSummary, b: ProbeSummary): readonly ProbeDifference[] =>
  probeDifferences(a, b).differences;

/** Probes while the `nth` call of a kernel, counted from 1, gives a number of which one bit is another. */
function probeDisturbed(architecture: Architecture, kernelName: string, nth: number): ProbeSummary {
  const stock = tf.getKernel(kernelName, "wasm");
  const { wasm, dataIdMap } = tf.backend() as unknown as WasmBackend;
  let calls = 0;
  tf.unregisterKernel(kernelName, "wasm");
  tf.registerKernel({
    ...stock,
    kernelFunc: (call) => {
      const made = stock.kernelFunc(call);
      const [first] = [made].flat();
      if (++calls === nth) wasm.HEAPU8[dataIdMap.get(first!.dataId).memoryOffset + 2]! ^= 1;
      return made;
    },
  });
  try {
    return probe(architecture);
  } finally {
    tf.unregisterKernel(kernelName, "wasm");
    tf.registerKernel(stock);
    assert.ok(calls >= nth, `${kernelName} ran ${calls} times`);
  }
}

const undisturbed = new Map<Architecture, ProbeSummary>();

const placeOf = (summary: ProbeSummary, architecture: Architecture): unknown => {
  const known = undisturbed.get(architecture) ?? probe(architecture);
  undisturbed.set(architecture, known);
  const [first] = differences(known, summary);
  return first && [first.phase, first.layer, first.value, first.operation.kind];
};

function closeTo(actual: Float32Array | undefined, expected: readonly number[]): void {
  assert.equal(actual?.length, expected.length);
  expected.forEach((value, index) => {
    assert.ok(Math.abs(actual[index]! - value) < 1e-5, `${index}: ${actual[index]} and ${value}`);
  });
}

describe("a probe", () => {
  for (const [name, architecture] of Object.entries({ twins, states, folded }))
    it(`${name}: gives the same twice, leaves no tensors behind, and survives being written`, () => {
      const summary = probe(architecture);
      const before = tf.memory().numTensors;
      const { compared, differences } = probeDifferences(summary, probe(architecture));
      // TensorFlow.js does not free the two weights of a layer that is called twice.
      assert.equal(tf.memory().numTensors, before + (architecture === twins ? 2 : 0));
      assert.deepEqual(differences, []);
      assert.ok(compared > 2 * architecture.layers.length, `${compared} values`);
      assert.deepEqual(decodeProbe(encodeProbe(summary), "here"), summary);
      assert.equal(summary.refused, null);
    });

  it("keeps what the layers give, by figures that can be computed by hand", () => {
    const architecture = modelOf(inputLayer([2]), denseOn(0, 2, 1, "linear"));
    const tensors: Tensor[] = [[2, -1], [0.5]].map((numbers, index) => ({
      dtype: "F32",
      shape: index === 0 ? [2, 1] : [1],
      bytes: bytesOfValues(Float32Array.from(numbers)).slice(),
    }));
    const seen = new Map<string, Float32Array>();
    const summary = probeHere(tf, { architecture, tensors }, (name, _, values) => {
      seen.set(name, values as Float32Array);
    });
    const [a = 0, b = 0, c = 0, d = 0] = seen.get("training/0/0")!;
    const outputs = Float32Array.of(2 * a - b + 0.5, 2 * c - d + 0.5);
    const figures = summary.layers[1]!.training!.outputs[0]!;
    assert.equal(figures.digest, sha256(bytesOfValues(outputs)));
    assert.deepEqual([figures.min, figures.max], [Math.min(...outputs), Math.max(...outputs)]);
    assert.equal(figures.norm, Math.sqrt(outputs[0]! ** 2 + outputs[1]! ** 2));
    assert.deepEqual(figures.sample, [...outputs]);
    // The loss is the sum of outputs, each times a number, so these are the gradients of the outputs.
    const [p = 0, q = 0] = seen.get("backward/1/0")!;
    closeTo(seen.get("backward/1/kernel"), [a * p + c * q, b * p + d * q]);
    closeTo(seen.get("backward/1/bias"), [p + q]);
    assert.equal(summary.model.parameters, 3);
    assert.notEqual(
      probeHere(tf, { architecture, tensors, seed: "2" }).layers[1]!.training!.outputs[0]!.digest,
      figures.digest,
    );
  });

  it("tells the calls of a shared layer apart by what they read", () => {
    const seen = new Map<string, Float32Array>();
    const tensors = [Float32Array.from({ length: 12 }, (_, i) => i - 5), Float32Array.of(1, 2, 3)];
    const architecture = modelOf(
      inputLayer([4]),
      inputLayer([4]),
      denseOn(0, 4, 3, "linear"),
      { ...denseOn(1, 4, 3, "linear"), weights: [], sharedWith: 2 },
      layerOn("Add", [2, 3]),
    );
    probeHere(
      tf,
      {
        architecture,
        tensors: tensors.map((values, index) => ({
          dtype: "F32",
          shape: index === 0 ? [4, 3] : [3],
          bytes: bytesOfValues(values),
        })),
      },
      (name, _, values) => seen.set(name, values as Float32Array),
    );
    for (const call of [0, 1])
      for (const phase of ["evaluation", "training"]) {
        const x = seen.get(`${phase}/${call}/0`)!;
        const expected = Array.from({ length: 6 }, (_, i) => {
          const [row, unit] = [Math.floor(i / 3), i % 3];
          return [0, 1, 2, 3].reduce(
            (sum, k) => sum + x[row * 4 + k]! * tensors[0]![k * 3 + unit]!,
            tensors[1]![unit]!,
          );
        });
        closeTo(seen.get(`${phase}/${2 + call}/0`), expected);
      }
    // Both calls read the same gradient, and add to the gradient of the one kernel.
    const [left, right, dy] = ["training/0/0", "training/1/0", "backward/4/0"].map((name) => seen.get(name)!);
    const sums = Array.from({ length: 12 }, (_, i) => {
      const [k, unit] = [Math.floor(i / 3), i % 3];
      return [0, 1].reduce(
        (sum, row) => sum + (left![row * 4 + k]! + right![row * 4 + k]!) * dy![row * 3 + unit]!,
        0,
      );
    });
    closeTo(seen.get("backward/2/kernel"), sums);
  });

  const placesOf = (architecture: Architecture, kernel: string, calls: readonly number[]): unknown[] =>
    calls.map((nth) => placeOf(probeDisturbed(architecture, kernel, nth), architecture));

  it("names the layer and operation where one bit is another, forward", () => {
    // Every layer with weights adds its bias. TensorFlow.js runs the second call of the shared layer first.
    assert.deepEqual(
      placesOf(twins, "Add", [1, 2, 3, 4, 5, 6, 7, 8]),
      ["evaluation", "training"].flatMap((phase) =>
        [3, 2, 4, 5].map((layer) => [phase, layer, "output 0", "differs"]),
      ),
    );
    assert.deepEqual(placesOf(states, "Sigmoid", [1, 16]), [
      ["evaluation", 1, "output 0", "differs"],
      ["training", 1, "output 0", "differs"],
    ]);
    assert.deepEqual(placesOf(folded, "StemmaNormalizedConvolution", [1]), [
      ["evaluation", 1, "output 0", "differs"],
    ]);
  });

  it("names the layer and operation where one bit is another, backward", () => {
    const [ofSum, ofKernel, ofInputs, ofShared] = placesOf(twins, "BatchMatMul", [1, 2, 3, 4]);
    // The last layer's product makes the gradient of what it reads.
    assert.deepEqual(ofSum, ["backward", 4, "gradient of output 0", "differs"]);
    assert.deepEqual(ofKernel, ["backward", 5, "gradient of kernel", "differs"]);
    assert.equal(ofInputs, undefined, "nobody asks for the gradient of an input");
    assert.deepEqual(ofShared, ["backward", 2, "gradient of kernel", "differs"]);
    const [first] = differences(probe(twins), probeDisturbed(twins, "BatchMatMul", 1));
    assert.deepEqual(first?.madeBy, [5], "not by the layer whose output it is the gradient of");
  });

  it("compares what is computed together in one and apart in the other where both have it", async () => {
    const fused = probe(folded);
    await tf.setBackend("cpu");
    const plain = probe(folded);
    await tf.setBackend("wasm");
    assert.deepEqual(
      fused.layers.map((layer) => [layer.evaluation?.isPassedOn, layer.training?.isPassedOn]),
      [[], [], [true], [true, true], [], []].map(([a, b]) => [a, b]),
    );
    const { together, differences, unreached } = probeDifferences(fused, plain);
    assert.deepEqual([together, unreached], [[1, 2], []]);
    const [first] = differences;
    assert.ok(first !== undefined && first.layer >= 3, "a last bit of the convolution is another");
    assert.equal(first.operation.kind, "others");
    const places = differences.map(({ phase, layer }) => [phase, layer]);
    assert.ok(!places.some(([phase, layer]) => phase === "evaluation" && Number(layer) < 3));
  });

  it("takes models without weights, and gives the gradient of their inputs", () => {
    const summary = probe(modelOf(inputLayer([2, 3]), layerOn("Flatten", [0])));
    assert.equal(summary.model.parameters, 0);
    assert.ok(summary.layers.every(({ backward }) => backward?.outputs[0]?.nan === 0));
    assert.equal(probe(modelOf(inputLayer([2]))).layers.length, 1);
    const words = modelOf(
      inputLayer([4], "int32"),
      layerOn("Embedding", [0], { input_dim: 7, output_dim: 3 }, [weight("embeddings", 7, 3)]),
      layerOn("Flatten", [1]),
    );
    const { layers, inputs } = probe(words);
    assert.ok(inputs.tensors[0]!.max! < 7, "the embedding has 7 rows");
    assert.equal(layers[1]?.backward?.weights[0]?.gradient?.shape.join(), "7,3");
    assert.equal(layers[0]?.backward?.outputs[0], null, "no gradient passes through indices");
  });

  it("draws inputs of open extents in the size that is asked for", () => {
    const { inputs } = probe(modelOf(inputLayer([null, 3]), layerOn("GlobalAveragePooling1D", [0])));
    assert.deepEqual(inputs.tensors[0]?.shape, [2, 8, 3]);
    assert.throws(
      () => probe(modelOf(inputLayer([2 ** 20, 2 ** 20]), layerOn("Flatten", [0]))),
      hasCode("MEMORY_EXHAUSTED"),
    );
  });

  it("counts numbers that are not finite, and says the same of them twice", () => {
    const architecture = modelOf(inputLayer([2]), denseOn(0, 2, 2, "linear"));
    const tensors = [
      [NaN, Infinity, 0, 0],
      [0, 0],
    ].map((numbers, index): Tensor => ({
      dtype: "F32",
      shape: index === 0 ? [2, 2] : [2],
      bytes: bytesOfValues(Float32Array.from(numbers)).slice(),
    }));
    const summary = probeHere(tf, { architecture, tensors });
    const output = summary.layers[1]!.evaluation!.outputs[0]!;
    assert.deepEqual([output.nan, output.infinite], [2, 2]);
    assert.deepEqual(decodeProbe(encodeProbe(summary), "here"), summary);
    assert.deepEqual(differences(summary, probeHere(tf, { architecture, tensors })), []);
  });

  it("evaluates what the engine does not train, and names the layer that keeps it from training", () => {
    const noisy = modelOf(
      inputLayer([3]),
      denseOn(0, 3, 3, "relu"),
      layerOn("GaussianNoise", [1], { stddev: 0.1 }),
    );
    const { refused, layers } = probe(noisy);
    assert.deepEqual([refused?.phase, refused?.layer, refused?.code], ["training", 2, "LAYER_NOT_ALLOWED"]);
    assert.ok(layers.every(({ evaluation, training, backward }) => evaluation && !training && !backward));
  });

  it("names the layer whose operation has no gradient, with what was found until there", () => {
    const stock = tf.getGradient("Sigmoid");
    tf.unregisterGradient("Sigmoid");
    tf.registerGradient({
      ...stock,
      gradFunc: () => {
        throw new StemmaError("OPERATION_MISSING", "The operation Sigmoid has no gradient.");
      },
    });
    try {
      const { refused, layers } = probe(twins);
      assert.deepEqual([refused?.phase, refused?.layer], ["backward", 5]);
      assert.ok(layers.every(({ training }) => training !== null));
    } finally {
      tf.unregisterGradient("Sigmoid");
      tf.registerGradient(stock);
    }
  });
});

/** State dicts of PyTorch become the weights of an architecture, and come back with the same bits. */
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import { describe, it, type TestContext } from "node:test";
import { isStemmaError } from "../../../../shared/errors.js";
import { parseYaml } from "../../../../shared/cli/parse-yaml.js";
import { openModelFile } from "../../../../shared/forms/model-file.js";
import { layOutAsBase } from "../../../../shared/layouts/base-layout.js";
import { decodeLayout, encodeLayout, type Layout } from "../../../../shared/layouts/layout.js";
import { defined } from "../../../../shared/defined.js";
import { zeroHash } from "../../../../shared/tensor/hash.js";
import { fileOfBytes, safetensorsChunks } from "../../../../shared/tensor/safetensors.js";
import { checkFileOfLayout, fileOfLayout } from "../../../../shared/layouts/file-of-layout.js";
import type { NamedHeader } from "../../../../shared/layouts/file-modules.js";
import { layOutFile, type LaidOutFile } from "../../../../shared/layouts/laid-out-file.js";
import { pytorchLayout, type Planner } from "../../../../shared/layouts/planned-layout.js";
import { readTopology } from "../../../../shared/layouts/topology-weights.js";
import { writtenLayout } from "../../../../shared/layouts/written-layout.js";
import { modelSourceOfSafetensors, opaqueModelSource } from "../../../../shared/save/model-source.js";
import { encodeCanonical } from "../../../../shared/model/canonical-json.js";
import type { DescribedModel } from "../../../../shared/model/model-json.js";
import type { ModelSource } from "../../../../shared/model/model.js";
import { openSafetensors } from "../../../../shared/save/open-safetensors.js";
import { sourceOfTensor, tensorOfSource, type Tensor } from "../../../../shared/tensor/tensor.js";

const vectors = new URL("../../../../../test/vectors/layouts/", import.meta.url);
const pathOf = (name: string): string => fileURLToPath(new URL(name, vectors));

interface LaidOutModel {
  readonly laidOut: LaidOutFile;
  readonly described: DescribedModel;
  readonly model: ModelSource;
  /** The file's tensors in its order. */
  readonly tensors: readonly (Tensor & { readonly name: string })[];
}

async function laidOut(
  t: TestContext,
  name: string,
  plan: Planner = (described, tensors) => pytorchLayout(described, tensors),
): Promise<LaidOutModel> {
  const file = await openModelFile(pathOf(`${name}.pt`));
  t.after(() => file.close());
  const described = readTopology(await readFile(pathOf(`${name}.json`)));
  const laid = await layOutFile(file.file, name, {
    described,
    plan: (headers) => plan(described, headers),
  });
  const model = await modelSourceOfSafetensors(laid.part.file, name, {
    architecture: { architecture: described.architecture, names: described.names },
  });
  const opened = await openSafetensors(file.file, name);
  const tensors = [];
  for (const entry of opened.tensors)
    tensors.push({ name: entry.name, ...(await tensorOfSource(opened.source(entry))) });
  return { laidOut: laid, described, model, tensors };
}

const sequential = (
  shape: readonly (number | null)[],
  ...layers: (readonly [string, object])[]
): Uint8Array =>
  Buffer.from(
    JSON.stringify({
      class_name: "Sequential",
      config: {
        name: "net",
        layers: [
          {
            class_name: "InputLayer",
            config: { name: "in", batch_input_shape: [null, ...shape], dtype: "float32" },
          },
          ...layers.map(([className, config], at) => ({
            class_name: className,
            config: { name: `layer${at}`, ...config },
          })),
        ],
      },
    }),
  );

const header = (name: string, ...shape: number[]): NamedHeader => ({ name, dtype: "F32", shape });

function refused(topology: Uint8Array, tensors: readonly NamedHeader[], text: RegExp): void {
  assert.throws(
    () => pytorchLayout(readTopology(topology), tensors),
    (error) => isStemmaError(error, "ARCHITECTURE_MISMATCH") && text.test(error.message),
  );
}

describe("a layout of PyTorch", () => {
  for (const name of ["mlp", "cnn", "mobile", "residual", "lstm", "lstm-biases", "gru"])
    it(`gives the weights of ${name}, and of them every tensor of the file`, async (t) => {
      const { laidOut: laid, model, tensors } = await laidOut(t, name);
      assert.equal(model.kind, "architecture");
      const file = await checkFileOfLayout(model.sources, laid.layout);
      assert.deepEqual(
        file.names.leaves,
        tensors.map((tensor) => tensor.name),
      );
      for (const [at, { dtype, shape, bytes }] of tensors.entries())
        assert.deepEqual(await tensorOfSource(file.sources[at]!), { dtype, shape, bytes });
      const { leaves } = opaqueModelSource(tensors);
      assert.equal(leaves.length, tensors.length);
    });

  it("can be written by hand, to the same weights", async (t) => {
    const text = `
format: 1
weights:
  c/kernel: { from: conv.weight, axes: [2, 3, 1, 0] }
  c/bias: conv.bias
  n/gamma: norm.weight
  n/beta: norm.bias
  n/moving_mean: norm.running_mean
  n/moving_variance: norm.running_var
  d/kernel: { from: fc.weight, as: [4, 3, 2, 3], axes: [2, 3, 1, 0] }
  d/bias: fc.bias
beside: [norm.num_batches_tracked]
`;
    const plan: Planner = (described, tensors) => writtenLayout(parseYaml(text), described, tensors);
    const [written, derived] = [await laidOut(t, "cnn", plan), await laidOut(t, "cnn")];
    assert.deepEqual(written.model.leaves, derived.model.leaves);
    assert.deepEqual(written.laidOut.layout, derived.laidOut.layout);
  });

  it("of a GRU can be written by hand: gates in another order, and two biases after each other", async (t) => {
    const gates = { as: [3, 4, 3], axes: [2, 0, 1], blocks: [1, 0, 2] };
    const ofLayer = (at: number, inputs: number): object => ({
      kernel: { ...gates, from: `gru.weight_ih_l${at}`, as: [3, 4, inputs] },
      recurrent_kernel: { ...gates, from: `gru.weight_hh_l${at}`, as: [3, 4, 4] },
      bias: { from: [`gru.bias_ih_l${at}`, `gru.bias_hh_l${at}`], as: [3, 4], blocks: [1, 0, 2] },
    });
    const weights = Object.fromEntries(
      [ofLayer(0, 3), ofLayer(1, 4)].flatMap((layer, at) =>
        Object.entries(layer).map(([name, from]) => [`${["one", "two"][at]}/${name}`, from as object]),
      ),
    );
    const head = { "h/kernel": { from: "head.weight", axes: [1, 0] }, "h/bias": "head.bias" };
    const written = await laidOut(t, "gru", (described, tensors) =>
      writtenLayout({ format: 1, weights: { ...weights, ...head } }, described, tensors),
    );
    const derived = await laidOut(t, "gru");
    assert.deepEqual(written.laidOut.layout, derived.laidOut.layout);
    const [kernel, , bias] = await Promise.all(derived.model.sources.map((source) => tensorOfSource(source)));
    const tensor = (name: string): Float32Array =>
      floats(derived.tensors.find((each) => each.name === name)!.bytes);
    assert.deepEqual(
      [kernel?.shape, bias?.shape],
      [
        [3, 12],
        [2, 12],
      ],
    );
    // PyTorch's rows are r, z, n, and the architecture's columns z, r, h.
    assert.equal(floats(kernel!.bytes)[0], tensor("gru.weight_ih_l0")[4 * 3]);
    assert.equal(floats(kernel!.bytes)[4], tensor("gru.weight_ih_l0")[0]);
    assert.equal(floats(bias!.bytes)[12 + 8], tensor("gru.bias_hh_l0")[8]);
  });

  it("is not guessed: equal modules need names or numbers, and layers one after the other", () => {
    const dense = ["Dense", { units: 4 }] as const;
    const chain = sequential([4], dense, dense);
    const modules = (...names: string[]): NamedHeader[] =>
      names.flatMap((name) => [header(`${name}.weight`, 4, 4), header(`${name}.bias`, 4)]);
    refused(chain, modules("first", "second"), /neither names nor numbers/);
    refused(chain, modules("a.1", "b.2"), /neither names nor numbers/);
    refused(chain, modules("fc1"), /no partner/);
    refused(chain, modules("fc1", "fc2", "fc3"), /no partner/);
    const plan = pytorchLayout(readTopology(chain), modules("fc10", "fc9"));
    assert.deepEqual(
      plan.tensors.map((tensor) => ("leaf" in tensor ? tensor.leaf : undefined)),
      [2, 3, 0, 1],
    );
    const tried = pytorchLayout(readTopology(chain), modules("second", "first"), { isProved: true });
    assert.deepEqual(
      tried.tensors.map((tensor) => ("leaf" in tensor ? tensor.leaf : undefined)),
      [0, 1, 2, 3],
    );
    const named = pytorchLayout(readTopology(chain), modules("layer1", "layer0"));
    assert.deepEqual(named.notes, []);
  });

  it("refuses by name what PyTorch computes otherwise, or in an order that is not known", () => {
    const dense = ["Dense", { units: 2 }] as const;
    const last = [header("d.weight", 2, 12), header("d.bias", 2)];
    const gates = { units: 2, recurrent_activation: "sigmoid" };
    refused(sequential([3, 4], ["GRU", gates]), [], /layer0 \(GRU\).*reset_after: true/);
    for (const config of [{ units: 2 }, { ...gates, activation: "relu" }, { ...gates, go_backwards: true }])
      refused(sequential([3, 4], ["GRU", { ...config, reset_after: true }]), [], /backwards|activations/);
    refused(sequential([3, 4], ["LSTM", { units: 2 }]), [], /activations/);
    // With null the engine computes no function at all, while the default is a function.
    for (const className of ["LSTM", "SimpleRNN"])
      refused(sequential([3, 4], [className, { ...gates, activation: null }]), [], /activation/);
    refused(sequential([3, 4], ["SimpleRNN", { units: 2, activation: "sigmoid" }]), [], /tanh or relu/);
    refused(
      sequential([3, 4], ["Bidirectional", { layer: { class_name: "LSTM", config: gates } }]),
      [],
      /layer0 \(Bidirectional\).*both directions/,
    );
    refused(sequential([3, 4], ["Flatten", {}], dense), last, /layer1 \(Dense\).*two axes is flattened/);
    refused(sequential([12], ["Reshape", { target_shape: [2, 6] }], ["Flatten", {}], dense), last, /Reshape/);
    refused(
      sequential([2, 2, 3], ["Dense", { units: 3 }], ["Flatten", {}], dense),
      [header("a.weight", 3, 3), header("a.bias", 3), ...last],
      /layer2 \(Dense\).*gets a picture/,
    );
    refused(sequential([3, 4], ["LSTM", { units: 2, go_backwards: true }]), [], /backwards/);
    refused(
      sequential([4, 4, 2], ["SeparableConv2D", { filters: 2, kernel_size: 3 }]),
      [],
      /SeparableConv2D/,
    );
  });

  it("keeps the order of sequences and of one channel when they are flattened", () => {
    const recurrent = readTopology(
      sequential(
        [3, 4],
        ["LSTM", { units: 2, return_sequences: true, recurrent_activation: "sigmoid" }],
        ["Flatten", {}],
        ["Dense", { units: 1 }],
      ),
    );
    const lstm = ["weight_ih_l0:8,4", "weight_hh_l0:8,2", "bias_ih_l0:8", "bias_hh_l0:8"].map((text) => {
      const [name = "", shape = ""] = text.split(":");
      return header(`lstm.${name}`, ...shape.split(",").map(Number));
    });
    const plan = pytorchLayout(recurrent, [...lstm, header("fc.weight", 1, 6), header("fc.bias", 1)]);
    const fc = plan.tensors.find(({ name }) => name === "fc.weight");
    assert.deepEqual(fc && "order" in fc ? fc.order : undefined, { as: [1, 6], axes: [1, 0] });
  });

  it("adds the two biases of PyTorch, and gives both back", async (t) => {
    const { laidOut: laid, model, tensors } = await laidOut(t, "lstm-biases");
    const bias = (name: string): Float32Array => floats(tensors.find((each) => each.name === name)!.bytes);
    const [ih, hh] = [bias("lstm.bias_ih_l0"), bias("lstm.bias_hh_l0")];
    const leaf = await tensorOfSource(model.sources[2]!);
    assert.deepEqual(
      floats(leaf.bytes),
      ih.map((each, at) => each + hh[at]!),
    );
    const trained = leaf.bytes.slice();
    floats(trained)[1] = 0.25;
    floats(trained)[2] = Number.NaN;
    const sources = model.sources.with(2, sourceOfTensor({ ...leaf, bytes: trained }));
    const child = fileOfLayout(sources, laid.layout);
    const at = child.names.leaves.indexOf("lstm.bias_ih_l0");
    const found = floats((await tensorOfSource(child.sources[at]!)).bytes);
    assert.deepEqual(found, ih.with(1, Math.fround(0.25 - hh[1]!)).with(2, Number.NaN));
    const kept = child.names.leaves.indexOf("lstm.bias_hh_l0");
    assert.deepEqual(floats((await tensorOfSource(child.sources[kept]!)).bytes), hh);
    assert.equal(await fileOfLayout(model.sources, laid.layout).countInexact(), 0);
    // The sum of 1 and a small number has only the first digits of the small one.
    floats(trained)[3] = hh[3]! * 1e-9;
    assert.ok((await child.countInexact()) >= 1);
  });
});

function floats(bytes: Uint8Array): Float32Array {
  return new Float32Array(bytes.buffer, bytes.byteOffset, bytes.byteLength / 4);
}

describe("hostile layouts", () => {
  it("that a person wrote are refused with what is wrong", async () => {
    const described = readTopology(await readFile(pathOf("mlp.json")));
    const tensors = [header("w", 5, 4)];
    const others: readonly unknown[] = [
      null,
      [],
      { format: 2, weights: {} },
      { format: 1 },
      { format: 1, weights: {}, more: 1 },
      { format: 1, weights: {} },
      { format: 1, weights: { "no/kernel": "w" } },
      { format: 1, weights: { "d0/kernel": "none" } },
      { format: 1, weights: { "d0/kernel": "w" }, beside: ["w"] },
      { format: 1, weights: { "d0/kernel": 3 } },
      { format: 1, weights: { "d0/kernel": { axes: [1, 0] } } },
      { format: 1, weights: { "d0/kernel": { from: "w", axes: [1, 1] } } },
      { format: 1, weights: { "d0/kernel": { from: "w", axes: [0, 2] } } },
      { format: 1, weights: { "d0/kernel": { from: "w", axes: ["0"] } } },
      { format: 1, weights: { "d0/kernel": { from: "w", as: [4, 4], axes: [1, 0] } } },
      { format: 1, weights: { "d0/kernel": { from: "w", as: [-5, -4], axes: [1, 0] } } },
      { format: 1, weights: { "d0/kernel": { from: "w", blocks: [0, 0, 1] } } },
      { format: 1, weights: { "d0/kernel": { from: "w", blocks: [0] } } },
      { format: 1, weights: { "d0/kernel": { from: [] } } },
      { format: 1, weights: { "d0/kernel": { from: ["w", "w"] } } },
      { format: 1, weights: { "d0/kernel": ["w"] } },
      { format: 1, weights: { "d0/kernel": ["w", "w"] } },
      { format: 1, weights: { "d0/kernel": ["w", 1] } },
      { format: 1, weights: { __proto__: null, "d0/kernel": { from: "w", extra: 1 } } },
      { format: 1, weights: {}, beside: "w" },
    ];
    for (const value of others)
      assert.throws(
        () => writtenLayout(value, described, tensors),
        (error) => isStemmaError(error, "MODEL_FILE_MALFORMED"),
        JSON.stringify(value),
      );
  });

  it("that came from outside are refused where their parts are not the weight", () => {
    const leaf = { dtype: "F32", shape: [2, 6] } as const;
    const part = { dtype: "F32", shape: [6], leaf: 0, part: [0, 2] };
    const one = { ...part, name: "a", as: [3, 2], axes: [0, 1], blocks: [1, 0, 2] };
    const two = { ...one, name: "b", part: [1, 2] };
    const read = (format: number, ...tensors: readonly object[]): unknown =>
      decodeLayout(encodeCanonical({ format, root: zeroHash, tensors } as never), [leaf]);
    const [first] = (read(2, one, two) as Layout).tensors;
    assert.deepEqual(first, {
      ...{ name: "a", dtype: "F32", shape: [6], leaf: 0, part: { at: 0, of: 2 } },
      order: { as: [3, 2], axes: [0, 1], blocks: [1, 0, 2] },
    });
    const whole = { name: "c", dtype: "F32", shape: [12], leaf: 0 };
    const bytes = Buffer.alloc(48).toString("base64");
    for (const [format, ...tensors] of [
      [1, one, two],
      [3, whole],
      [2, one],
      [2, one, { ...two, part: [0, 2] }],
      [2, one, two, whole],
      [2, one, { ...two, part: [1, 3] }],
      [2, one, { ...two, part: [2, 2] }],
      [2, one, { ...two, part: [1, 2, 3] }],
      [2, one, { ...two, blocks: [0, 1, 3] }],
      [2, one, { ...two, blocks: [0, 1] }],
      [2, one, { ...two, as: undefined }],
      [2, { ...whole, part: [0, 1] }],
      [2, { ...whole, part: [0, 0] }],
      [
        2,
        { ...whole, addend: "kept", bytes, part: [0, 2] },
        { ...whole, addend: "difference", bytes, name: "d" },
      ],
      [2, { ...whole, addend: "kept", bytes }, { ...one, part: [1, 2] }],
    ] as const)
      assert.throws(
        () => read(format, ...tensors.map((each) => JSON.parse(JSON.stringify(each)) as object)),
        (error) => isStemmaError(error, "MODEL_FILE_MALFORMED"),
        JSON.stringify([format, tensors]),
      );
  });

  it("in a base's layout is refused where its names are the architecture's too, and it is not said which", async () => {
    const described = readTopology(sequential([2], ["Dense", { units: 2, use_bias: false }]));
    const header = { name: "layer0/kernel", dtype: "F32", shape: [2, 2] } as const;
    const bytes = new Uint8Array(Float32Array.of(1, 2, 3, 4).buffer);
    const chunks: Uint8Array[] = [];
    for await (const chunk of safetensorsChunks([
      { name: header.name, source: sourceOfTensor({ ...header, bytes }) },
    ]))
      chunks.push(chunk);
    const read = async (axes: readonly number[], isStated?: true): Promise<Uint8Array> => {
      const tensors = [{ ...header, leaf: 0, order: { as: [2, 2], axes } }];
      const layout = encodeLayout({ root: zeroHash, tensors });
      const file = fileOfBytes(Buffer.concat(chunks));
      const laid = await layOutAsBase(file, "file", { described, layout, ...defined({ isStated }) });
      assert.ok(laid !== undefined);
      const { sources } = await modelSourceOfSafetensors(laid.part.file, "file");
      return (await tensorOfSource(sources[0]!)).bytes;
    };
    await assert.rejects(read([1, 0]), (error) => isStemmaError(error, "ARCHITECTURE_MISMATCH"));
    assert.deepEqual(await read([0, 1]), bytes);
    assert.deepEqual(await read([1, 0], true), new Uint8Array(Float32Array.of(1, 3, 2, 4).buffer));
  });
});

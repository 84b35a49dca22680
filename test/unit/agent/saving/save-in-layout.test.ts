/** Files in the names and axes of the PyTorch file that a line's model was imported from. */
import assert from "node:assert/strict";
import { readdir } from "node:fs/promises";
import { join } from "node:path";
import { describe, it, type TestContext } from "node:test";
import type { Outbox } from "../../../../agent/outbox/outbox.js";
import { nodeClock } from "../../../../shared/adapters/node-ports.js";
import { isStemmaError, type ErrorCode } from "../../../../shared/errors.js";
import { layoutIdOf } from "../../../../shared/layouts/base-layout.js";
import { decodeLayout, encodeLayout, layoutName } from "../../../../shared/layouts/layout.js";
import { decodeMetadata } from "../../../../shared/model/metadata.js";
import { recoverModel } from "../../../../shared/recover/recover-model.js";
import { originalFileName, slotFilesOf } from "../../../../shared/layouts/slot-files.js";
import { fileOfBytes, readSafetensors } from "../../../../shared/tensor/safetensors.js";
import { tensorOfSource, type Hash, type Tensor } from "../../../../shared/tensor/tensor.js";
import { collectBytes } from "../../../helpers/agent-fixtures.js";
import { layoutVectorPath, openLayoutVector } from "../../../helpers/layout-vector.js";
import { line, openSaver, runs, writeModel } from "./open-saver.js";

type NamedTensor = Tensor & { readonly name: string };

/** A line that runs a model of PyTorch, and the tensors of its file. */
async function openLine(t: TestContext, name: string, beside: readonly NamedTensor[] = []) {
  const opened = await openSaver(t);
  const { file, model, layout } = await openLayoutVector(t, name);
  const read = decodeLayout(layout, model.sources);
  const bytes = encodeLayout({ ...read, tensors: [...read.tensors, ...beside] });
  const base = await runs(opened.outbox, model, [{ name: layoutName, bytes }]);
  const state = await readSafetensors(file.file, name);
  const tensors: NamedTensor[] = [...beside];
  for (const each of state.tensors)
    tensors.push({ name: each.name, ...(await tensorOfSource(state.source(each))) });
  const write = (to: string, given: readonly NamedTensor[]): Promise<string> =>
    writeModel(
      join(opened.folder, to),
      given,
      given.map((each) => each.name),
    );
  return { ...opened, base, model, tensors, write };
}

/** The tensors with one byte of each changed. */
function trained<Each extends Tensor>(tensors: readonly Each[]): Each[] {
  return tensors.map((tensor) => {
    const bytes = tensor.bytes.slice();
    bytes[0] = (bytes[0] ?? 0) ^ 1;
    return { ...tensor, bytes };
  });
}

function floatsOf({ bytes }: Tensor): Float32Array {
  return new Float32Array(bytes.slice().buffer);
}

/** The files that a device installs of a version. */
async function slotOf(outbox: Outbox, versionId: Hash) {
  const model = await recoverModel(outbox.objects, versionId, nodeClock());
  const id = layoutIdOf(model.record);
  const files = slotFilesOf(model, id && (await outbox.objects.read("attachment", id)));
  const original = files.find(({ name }) => name === originalFileName);
  assert.ok(original !== undefined && id !== undefined);
  const read = await readSafetensors(
    fileOfBytes(await collectBytes(original.chunks as AsyncIterable<Uint8Array>)),
    "original",
  );
  const tensors = new Map<string, Tensor>();
  for (const each of read.tensors) tensors.set(each.name, await tensorOfSource(read.source(each)));
  return { model, tensors };
}

const hasCode = (code: ErrorCode, text: RegExp) => (error: unknown) =>
  isStemmaError(error, code) && text.test(error.message);

describe("a file in the layout of its base", () => {
  for (const name of ["cnn", "lstm-biases", "gru"])
    it(`of ${name} becomes its weights, and comes back with the same bits`, async (t) => {
      const { outbox, saver, base, tensors, write } = await openLine(t, name);
      const given = trained(tensors);
      const saved = await saver.save(line, { file: await write("net.safetensors", [...given].reverse()) });
      assert.deepEqual([saved.isNew, saved.base], [true, base]);
      const { model, tensors: found } = await slotOf(outbox, saved.versionId);
      assert.equal(model.record.kind, "architecture");
      assert.equal(found.size, given.length);
      for (const { name: each, ...tensor } of given) assert.deepEqual(found.get(each), tensor, each);
    });

  it("is read again from what it gave, and from the names of the architecture", async (t) => {
    const { outbox, saver, model, tensors, write } = await openLine(t, "lstm-biases");
    const weights = await Promise.all(
      model.sources.map(async (source, at) => ({
        ...(await tensorOfSource(source)),
        name: model.leaves[at]!.path,
      })),
    );
    const byPath = await saver.save(line, { file: await write("by-path.safetensors", trained(weights)) });
    const { tensors: found } = await slotOf(outbox, byPath.versionId);
    const kept = (name: string): Uint8Array => tensors.find((each) => each.name === name)!.bytes;
    assert.deepEqual(found.get("lstm.bias_hh_l0")?.bytes, kept("lstm.bias_hh_l0"));
    assert.notDeepEqual(found.get("lstm.bias_ih_l0")?.bytes, kept("lstm.bias_ih_l0"));
    const again = [...found].map(([name, tensor]) => ({ name, ...tensor }));
    const file = await write("again.safetensors", again);
    const same = await saver.save(line, { file, base: byPath.versionId });
    assert.deepEqual([same.isNew, same.versionId], [false, byPath.versionId]);
  });

  it("is another model where only a tensor beside the weights is another, and the same in another order", async (t) => {
    const { saver, base, tensors, write } = await openLine(t, "cnn");
    const save = async (given: readonly NamedTensor[]) =>
      await saver.save(line, { file: await write("net.safetensors", given) });
    const same = await save([...tensors].reverse());
    assert.deepEqual([same.isNew, same.versionId], [false, base]);
    const counted = tensors.map((each) =>
      each.name.endsWith("num_batches_tracked") ? (trained([each])[0] as NamedTensor) : each,
    );
    assert.equal((await save(counted)).isNew, true);
    assert.equal((await save(counted)).isNew, false);
  });

  it("is refused with a number that is not finite beside the weights, where the base has finite ones", async (t) => {
    const scale = (name: string, value: number): NamedTensor => ({
      ...{ name, dtype: "F32", shape: [1] },
      bytes: new Uint8Array(Float32Array.of(value).buffer),
    });
    const { saver, tensors, write } = await openLine(t, "cnn", [scale("scale", 1), scale("mask", -Infinity)]);
    const save = async (value: number) => {
      const given = trained(tensors).map((each) => (each.name === "scale" ? scale("scale", value) : each));
      const masked = given.map((each) => (each.name === "mask" ? scale("mask", -Infinity) : each));
      return await saver.save(line, { file: await write("net.safetensors", masked) });
    };
    await assert.rejects(save(NaN), hasCode("NOT_A_NUMBER", /"scale"/));
    assert.equal((await save(2)).isNew, true);
  });

  it("whose layout lies is not installed", async (t) => {
    const { outbox, base } = await openLine(t, "cnn");
    const model = await recoverModel(outbox.objects, base, nodeClock());
    const layout = Buffer.from(
      await outbox.objects.read("attachment", layoutIdOf(model.record) as Hash),
    ).toString();
    const install = async (text: string): Promise<void> => {
      for (const { chunks } of slotFilesOf(model, Buffer.from(text))) for await (const _ of chunks);
    };
    await install(layout);
    const { root } = JSON.parse(layout) as { readonly root: string };
    await assert.rejects(install(layout.replace(root, "0".repeat(64))), hasCode("ROOT_MISMATCH", /./));
    await assert.rejects(install(layout.replace("[2,3,1,0]", "[3,2,1,0]")), hasCode("ROOT_MISMATCH", /./));
    await assert.rejects(install(layout.slice(1)), hasCode("MODEL_FILE_MALFORMED", /./));
  });

  it("is saved with what its check found, and refused where the engine computes something else", async (t) => {
    const { home, outbox, saver, base, tensors, write } = await openLine(t, "mlp");
    const samples = layoutVectorPath("mlp.samples.safetensors");
    const file = await write("net.safetensors", trained(tensors));
    const saved = await saver.save(line, { file, check: { file: samples } });
    assert.match(saved.notes?.join() ?? "", /outputs of \d+ samples (differ|are those)/u);
    const { record } = await outbox.record(saved.versionId);
    const metadata = decodeMetadata(await outbox.objects.read("metadata", record.objects.metadata as Hash));
    assert.ok((metadata["trainer.check.largest"] as number) <= 1e-5);
    assert.equal(metadata["trainer.check.tolerance"], 1e-5);

    const halved = tensors.map((each) =>
      each.dtype === "F32"
        ? { ...each, bytes: new Uint8Array(floatsOf(each).map((one) => one / 2).buffer) }
        : each,
    );
    const other = await write("other.safetensors", halved);
    await assert.rejects(
      saver.save(line, { file: other, check: { file: samples } }),
      hasCode(
        "ARCHITECTURE_MISMATCH",
        /by up to [\d.]+ \(sample \d+, output \[\d+\]: .* and 0.00001 is allowed, so nothing/u,
      ),
    );
    for (const [name, code] of [
      ["none.npz", "FILE_MISSING"],
      [".", "FILE_NOT_REGULAR"],
    ] as const)
      await assert.rejects(
        saver.save(line, { file: other, check: { file: join(home, name) } }),
        hasCode(code, /./),
      );
    assert.equal(outbox.newest(line)?.versionId, saved.versionId);
    const lenient = await saver.save(line, { file: other, base, check: { file: samples, tolerance: 1000 } });
    assert.equal(lenient.isNew, true);
    assert.deepEqual(await readdir(join(home, "work")), []);
  });

  it("is refused by name where it does not fit, and nothing is saved", async (t) => {
    const { outbox, saver, tensors, write } = await openLine(t, "cnn");
    const refused = async (given: readonly NamedTensor[], code: ErrorCode, text: RegExp): Promise<void> => {
      const file = await write("bad.safetensors", given);
      await assert.rejects(saver.save(line, { file }), hasCode(code, text));
    };
    const bytes = new Uint8Array(12);
    await refused(tensors.slice(1), "ARCHITECTURE_MISMATCH", /"conv\.weight" is missing/);
    const more = { name: "norm.more", dtype: "F32" as const, shape: [3], bytes };
    await refused([...tensors, more], "ARCHITECTURE_MISMATCH", /"norm\.more" is not among them/);
    const other = tensors.map((each) => (each.name === "norm.bias" ? { ...each, shape: [3, 1] } : each));
    await refused(other, "ARCHITECTURE_MISMATCH", /"norm\.bias" is F32 \[3, 1\] instead of F32 \[3\]/);
    const diverged = tensors.map((each) =>
      each.name === "norm.bias"
        ? { ...each, bytes: new Uint8Array(new Float32Array(3).fill(NaN).buffer) }
        : each,
    );
    await refused(diverged, "NOT_A_NUMBER", /.+/);
    const file = await write("good.safetensors", trained(tensors));
    const attached = await write(layoutName, tensors);
    await assert.rejects(saver.save(line, { file, attachments: [attached] }), hasCode("USAGE", /stemma/));
    assert.equal(outbox.state.lines.get(line)?.versions.length, 1);
  });
});

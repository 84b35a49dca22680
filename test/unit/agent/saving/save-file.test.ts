/** Models in: files of other programs, saved into a real outbox. What does not fit saves nothing and says why. */
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdtemp, open, readFile, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, it } from "node:test";
import { FileSaver } from "../../../../agent/saving/save-file.js";
import { nodeClock } from "../../../../shared/adapters/node-ports.js";
import { isStemmaError, type ErrorCode } from "../../../../shared/errors.js";
import { decodeMetadata } from "../../../../shared/model/metadata.js";
import type { ModelSource } from "../../../../shared/model/model.js";
import { recoverModel } from "../../../../shared/recover/recover-model.js";
import { slotFilesOf } from "../../../../shared/layouts/slot-files.js";
import { opaqueModelSource } from "../../../../shared/save/model-source.js";
import { safetensorsChunks } from "../../../../shared/tensor/safetensors.js";
import { sourceOfTensor, tensorOfSource, type Hash, type Tensor } from "../../../../shared/tensor/tensor.js";
import { faultyFiles, fullAfter } from "../../../helpers/files/faulty-files.js";
import { zeroHash } from "../../../../shared/tensor/hash.js";
import { memoryFiles } from "../../../helpers/files/memory-files.js";
import { line, openOutbox, openSaver, runs, saverOptions, writeModel } from "./open-saver.js";
import { collectBytes, saveBase, tinyModel, tinySource } from "../../../helpers/agent-fixtures.js";
import { ModelFolder, shardedModel, shardNames, torchModel } from "../../../helpers/foreign-models.js";

/** Changes one byte of the last tensor. */
function fineTuned(tensors: readonly Tensor[], amount = 1): Tensor[] {
  return tensors.map((tensor, at) => {
    if (at < tensors.length - 1) return tensor;
    const bytes = tensor.bytes.slice();
    bytes[0] = ((bytes[0] ?? 0) + amount) & 0xff;
    return { ...tensor, bytes };
  });
}

const small: Tensor = { dtype: "F32", shape: [2], bytes: Uint8Array.of(1, 2, 3, 4, 5, 6, 7, 8) };
const opaque = (amount = 0): Tensor[] => fineTuned([small, small], amount);
const opaqueNames = ["head.bias", "head.weight"];
const opaqueSource = (): ModelSource =>
  opaqueModelSource(opaque().map((tensor, at) => ({ ...tensor, name: opaqueNames[at] as string })));

const hasCode = (code: ErrorCode) => (error: unknown) => isStemmaError(error, code);

describe("a file of another program", () => {
  it("becomes the next version of a line with an architecture, by the names of its model or by paths", async (t) => {
    const { folder, outbox, saver } = await openSaver(t);
    const model = tinySource();
    const { tensors } = tinyModel();
    const base = await runs(outbox, model);
    for (const [at, names] of [model.names.leaves, model.leaves.map(({ path }) => path)].entries()) {
      const changed = fineTuned(tensors, at + 1);
      const file = await writeModel(join(folder, `${at}.safetensors`), changed, names);
      const saved = await saver.save(line, { file, metrics: { accuracy: 0.5 + at } });
      assert.deepEqual([saved.isNew, saved.changed, saved.base], [true, 1, base]);
      const { record } = await outbox.record(saved.versionId);
      assert.deepEqual([record.bases, record.sequence, record.approach], [[base], at + 2, "update"]);
      const recovered = await recoverModel(outbox.objects, saved.versionId, nodeClock());
      assert.equal(recovered.verifiedRoot, record.root);
      const metadata = await outbox.objects.read("metadata", record.objects.metadata as Hash);
      assert.deepEqual(decodeMetadata(metadata), { accuracy: 0.5 + at });
    }
  });

  it("is kept as it is where the line delivers a file, under its name; tensors are refused there", async (t) => {
    const { folder, outbox, saver } = await openSaver(t);
    const first = join(folder, "soh.tflite");
    await writeFile(first, "TFL3 first");
    await assert.rejects(saver.save(line, { file: first }), hasCode("SAFETENSORS_MALFORMED"));
    const saved = await saver.save(line, { file: first, as: "file" });
    assert.deepEqual([saved.isNew, saved.keptAs, saved.base], [true, "soh.tflite", null]);
    const { versionId } = saved;
    await outbox.append({ type: "activated", atMs: 0, versionId, line, clockErrorMs: null, session: 1 });
    const file = join(folder, "trained-elsewhere.tflite");
    await writeFile(file, "TFL3 the second is longer");
    const second = await saver.save(line, { file });
    assert.deepEqual([second.isNew, second.keptAs, second.base], [true, "soh.tflite", versionId]);
    const recovered = await recoverModel(outbox.objects, second.versionId, nodeClock());
    const [slot] = slotFilesOf(recovered);
    assert.equal(slot?.name, "soh.tflite");
    assert.deepEqual(
      Buffer.from(await collectBytes(slot.chunks as AsyncIterable<Uint8Array>)),
      await readFile(file),
    );
    assert.equal((await saver.save(line, { file })).isNew, false);
    const tensors = await writeModel(join(folder, "model.safetensors"), opaque(), opaqueNames);
    const named = join(folder, "model.onnx");
    await writeFile(named, "TFL3");
    for (const other of [tensors, named])
      await assert.rejects(saver.save(line, { file: other }), hasCode("ARCHITECTURE_MISMATCH"));
  });

  it("is not kept as it is where the line has tensors", async (t) => {
    const { folder, outbox, saver } = await openSaver(t);
    await runs(outbox, opaqueSource());
    const file = join(folder, "soh.tflite");
    await writeFile(file, "\x1c\0\0\0TFL3 and more");
    await assert.rejects(saver.save(line, { file, as: "file" }), hasCode("ARCHITECTURE_MISMATCH"));
    await assert.rejects(saver.save(line, { file }), hasCode("SAFETENSORS_MALFORMED"));
  });

  it("becomes the next version of an opaque line, or the first of one without a model", async (t) => {
    const { folder, outbox, saver } = await openSaver(t);
    const file = await writeModel(join(folder, "m.safetensors"), opaque(), opaqueNames);
    const first = await saver.save(line, { file });
    assert.deepEqual([first.base, first.sequence, first.changed], [null, 1, 2]);
    const next = await writeModel(join(folder, "n.safetensors"), opaque(1), opaqueNames);
    const second = await saver.save(line, { file: next, base: first.versionId.slice(0, 8) });
    assert.deepEqual([second.base, second.changed, second.newTensorBytes], [first.versionId, 1, 8]);
    assert.equal(outbox.newest(line)?.versionId, second.versionId);
  });

  it("is compared with what the link names, also before that switch is recorded", async (t) => {
    const { folder, home, outbox } = await openSaver(t);
    const before = await runs(outbox, opaqueSource());
    const linked = await saveBase(outbox, opaqueSource(), line);
    for (const [active, base] of [
      [linked, linked],
      [zeroHash, before],
    ] as const) {
      const current = { active: () => Promise.resolve(active) };
      const saver = new FileSaver({ ...saverOptions(outbox, home), current });
      const file = await writeModel(join(folder, "m"), opaque(active === linked ? 1 : 2), opaqueNames);
      assert.equal((await saver.save(line, { file })).base, base);
    }
  });

  it("may be of any form that is read: shards with their index, and not one of them, or a state dict", async (t) => {
    const { folder, saver } = await openSaver(t);
    using shards = new ModelFolder();
    const { main, files } = shardedModel();
    shards.write({ main, files });
    const saved = await saver.save(line, { file: join(shards.path, main) });
    assert.deepEqual([saved.tensors, saved.tensorBytes], [3, 16]);
    assert.match(saved.notes?.[0] ?? "", /differ between the shards/);
    const one = saver.save(line, { file: join(shards.path, shardNames[0]) });
    await assert.rejects(one, hasCode("MODEL_FILE_MALFORMED"));
    const file = join(folder, "state.pt");
    await writeFile(file, torchModel().files["state.pt"] as Uint8Array);
    assert.equal((await saver.save("other", { file })).tensors, 19);
  });

  it("makes no second version of the same model, unless that is asked for", async (t) => {
    const { folder, outbox, saver } = await openSaver(t);
    await runs(outbox, opaqueSource());
    const file = await writeModel(join(folder, "m.safetensors"), opaque(1), opaqueNames);
    const [first, second] = await Promise.all([saver.save(line, { file }), saver.save(line, { file })]);
    assert.deepEqual([first.isNew, second.isNew], [true, false]);
    assert.equal(second.versionId, first.versionId);
    const again = await saver.save(line, { file, again: true });
    assert.deepEqual([again.isNew, again.newTensorBytes], [true, 0]);
    const ofBase = await writeModel(join(folder, "base.safetensors"), opaque(), opaqueNames);
    assert.equal((await saver.save(line, { file: ofBase })).isNew, false);
  });

  it("is refused where it changes meanwhile, unless all of it was read before", async (t) => {
    const change = async (path: string): Promise<void> => {
      const file = await open(path, "r+");
      await file.write(Uint8Array.of(9), 0, 1, (await file.stat()).size - 1);
      await file.close();
    };
    let path = "";
    const { folder, outbox, saver } = await openSaver(t, { "training.memoryLimitMb": 64 }, () =>
      change(path),
    );
    path = await writeModel(join(folder, "small"), opaque(1), opaqueNames);
    const bytes = await readFile(path);
    const { versionId } = await saver.save(line, { file: path });
    const { sources } = await recoverModel(outbox.objects, versionId, nodeClock());
    const tensors = await Promise.all(sources.map(async (one) => (await tensorOfSource(one)).bytes));
    assert.deepEqual(Buffer.concat(tensors), bytes.subarray(-16));
    // More than a quarter of the profile's memory.
    const large: Tensor = { dtype: "U8", shape: [17 * 2 ** 20], bytes: new Uint8Array(17 * 2 ** 20) };
    path = await writeModel(join(folder, "large"), [large], ["a"]);
    await assert.rejects(saver.save("other", { file: path }), hasCode("FILE_CHANGED"));
    assert.equal(outbox.newest("other"), undefined);
  });

  it("is refused where it does not fit the line, with the difference", async (t) => {
    const { folder, outbox, saver } = await openSaver(t);
    await runs(outbox, opaqueSource());
    const wide: Tensor = { dtype: "F32", shape: [1], bytes: new Uint8Array(4) };
    const file = await writeModel(join(folder, "m.safetensors"), [wide, small], ["head.bias", "tail"]);
    await assert.rejects(saver.save(line, { file }), (error) => {
      assert.ok(isStemmaError(error, "ARCHITECTURE_MISMATCH"));
      for (const part of ['"head.bias" is F32 [1] instead of F32 [2]', '"head.weight"', '"tail"'])
        assert.ok(error.message.includes(part), part);
      return true;
    });
    await runs(outbox, tinySource());
    const wider = tinySource("1", 4);
    const other = await writeModel(
      join(folder, "o.safetensors"),
      tinyModel("1", 4).tensors,
      wider.names.leaves,
    );
    await assert.rejects(saver.save(line, { file: other }), hasCode("ARCHITECTURE_MISMATCH"));
    assert.equal(outbox.newest(line)?.sequence, 2);
  });

  it("is refused where its numbers are not finite and those of its base are", async (t) => {
    const { folder, outbox, saver } = await openSaver(t);
    await runs(outbox, opaqueSource());
    const infinite: Tensor = { ...small, bytes: Uint8Array.of(1, 2, 3, 4, 0, 0, 0x80, 0xff) };
    const file = await writeModel(join(folder, "m"), [small, infinite], opaqueNames);
    await assert.rejects(saver.save(line, { file }), (error) => {
      assert.ok(isStemmaError(error, "NOT_A_NUMBER"));
      assert.equal(error.details["tensor"], "head.weight");
      return true;
    });
    assert.equal(outbox.newest(line)?.sequence, 1);
    // A base with a mask of −∞.
    const named = [small, infinite].map((tensor, at) => ({ ...tensor, name: opaqueNames[at] as string }));
    await runs(outbox, opaqueModelSource(named));
    const next = { ...infinite, bytes: infinite.bytes.map((byte, at) => (at === 0 ? 9 : byte)) };
    const masked = await writeModel(join(folder, "n"), [small, next], opaqueNames);
    assert.equal((await saver.save(line, { file: masked })).changed, 1);
  });

  it("saves nothing on a full disk, wherever it is full, and saves once there is space", async (t) => {
    const folder = await mkdtemp(join(tmpdir(), "stemma-save-"));
    t.after(() => rm(folder, { recursive: true, force: true }));
    const file = await writeModel(join(folder, "m"), opaque(1), opaqueNames);
    let refused = 0;
    for (let room = 0; ; room += 100) {
      const disk = memoryFiles();
      const base = await openOutbox(disk);
      await runs(base, opaqueSource());
      await base.close();
      const { plan, free } = fullAfter(room);
      const outbox = await openOutbox(faultyFiles(disk, plan));
      const saver = new FileSaver(saverOptions(outbox, folder));
      const failure: unknown = await saver.save(line, { file }).then(
        () => undefined,
        (error: unknown) => error,
      );
      if (failure === undefined) break;
      refused++;
      assert.ok(isStemmaError(failure, "DISK_FULL"));
      assert.equal(outbox.newest(line)?.sequence, 1);
      const packs = await disk.list("/outbox/packs");
      assert.ok(!packs.some((name) => name.endsWith(".tmp")), "nothing half is left");
      free(2 ** 20);
      const { sequence, versionId } = await saver.save(line, { file });
      assert.equal(sequence, 2);
      await outbox.close();
      const again = await openOutbox(disk);
      assert.equal((await recoverModel(again.objects, versionId, nodeClock())).versionId, versionId);
      assert.equal(again.newest(line)?.versionId, versionId);
      await again.close();
    }
    assert.ok(refused > 10, `refused at ${refused} places`);
  });

  it("is refused where it is not a model file that can be read", async (t) => {
    const { folder, home, outbox, saver } = await openSaver(t, { "disk.budgetBytes": 4 * 2 ** 20 });
    const model = await writeModel(join(folder, "m.safetensors"), opaque(1), opaqueNames);
    const bytes = await collectBytes(
      safetensorsChunks([{ name: "a", source: sourceOfTensor({ ...small, shape: [2, 1] }) }]),
    );
    const path = (name: string): string => join(folder, name);
    await writeFile(path("torn"), bytes.subarray(0, bytes.length - 1));
    await writeFile(path("zip"), Buffer.from("PK\u0003\u0004 and more than that"));
    execFileSync("mkfifo", [path("pipe")]);
    await writeFile(join(home, "enrolment.json"), "{}");
    await symlink(join(home, "enrolment.json"), path("harmless.txt"));
    const large: Tensor = { dtype: "U8", shape: [2 ** 21], bytes: new Uint8Array(2 ** 21) };
    const huge = await writeModel(
      path("huge"),
      [large, { ...large, bytes: large.bytes.map(() => 1) }],
      ["a", "b"],
    );
    for (const [request, code] of [
      [{ file: "m.safetensors" }, "USAGE"],
      [{ file: path("absent") }, "FILE_MISSING"],
      [{ file: path("torn") }, "SAFETENSORS_TRUNCATED"],
      [{ file: path("zip") }, "MODEL_FILE_MALFORMED"],
      [{ file: path("pipe") }, "FILE_NOT_REGULAR"],
      [{ file: folder }, "FILE_NOT_REGULAR"],
      [{ file: "/dev/zero" }, "FILE_NOT_REGULAR"],
      [{ file: huge }, "DISK_BUDGET_EXHAUSTED"],
      [{ file: model, base: "m:7" }, "MODEL_NOT_FOUND"],
      [{ file: model, metrics: { "metric.after": 1 } }, "USAGE"],
      [{ file: model, metrics: { loss: [1] } }, "USAGE"],
      [{ file: model, attachments: [path("pipe")] }, "FILE_NOT_REGULAR"],
      [{ file: model, attachments: [path("harmless.txt")] }, "NOT_ALLOWED"],
    ] as const)
      await assert.rejects(saver.save(line, request), hasCode(code), `${JSON.stringify(request)}: ${code}`);
    assert.equal(outbox.newest(line), undefined);
    assert.equal((await saver.save(line, { file: model })).sequence, 1);
  });
});

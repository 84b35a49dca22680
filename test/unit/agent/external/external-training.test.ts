/**
 * Trainings by programs of the device's own, with a real outbox: what the program gets, what becomes of what it
 * leaves, and that no output of it does any harm.
 */
import assert from "node:assert/strict";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, it, type TestContext } from "node:test";
import { trainExternally, type TrainedExternally } from "../../../../agent/external/external-training.js";
import { viewOf } from "../../../../shared/provenance/diff-provenance.js";
import { openProvenance } from "../../../../shared/provenance/openings.js";
import type { SampleRange } from "../../../../agent/outbox/outbox-state.js";
import { Outbox } from "../../../../agent/outbox/outbox.js";
import { parseConfig } from "../../../../agent/settings/config.js";
import {
  externalRecipe,
  externalTrainerSchema,
  requestedParameters,
} from "../../../../agent/settings/external-trainer.js";
import { nodeClock, nodeRandom } from "../../../../shared/adapters/node-ports.js";
import { isStemmaError, type ErrorCode } from "../../../../shared/errors.js";
import { nodeFiles } from "../../../../shared/files/node-files.js";
import { decodeEnvironment } from "../../../../shared/model/environment.js";
import { decodeMetadata } from "../../../../shared/model/metadata.js";
import { openModelFile } from "../../../../shared/forms/model-file.js";
import { recoverModel } from "../../../../shared/recover/recover-model.js";
import { modelSourceOfSafetensors, opaqueModelSource } from "../../../../shared/save/model-source.js";
import { evaluateInChild } from "../../../../shared/train/evaluate-in-child.js";
import { fileOfBytes } from "../../../../shared/tensor/safetensors.js";
import type { Hash, Tensor } from "../../../../shared/tensor/tensor.js";
import { layoutName } from "../../../../shared/layouts/layout.js";
import { layoutVectorPath, openLayoutVector } from "../../../helpers/layout-vector.js";
import { saveBase, testProfile, WaitableLog } from "../../../helpers/agent-fixtures.js";
import {
  shardedModel,
  shardedTorchModel,
  tfjsModelFiles,
  torchModel,
  vectorModel,
} from "../../../helpers/foreign-models.js";
import { pollUntil } from "../../../helpers/poll-until.js";
import { freeDisk } from "../../../helpers/free-disk.js";

const line = "cam";
const example = join(import.meta.dirname, "../../../../../examples/own-trainer.mjs");

interface Setup {
  readonly exec: readonly string[];
  readonly settings?: Readonly<Record<string, unknown>>;
  readonly parameters?: Readonly<Record<string, number>>;
  readonly dataset?: { readonly reader: string; readonly location?: string };
}

async function openTraining(t: TestContext) {
  const folder = await mkdtemp(join(tmpdir(), "stemma-external-"));
  const files = nodeFiles();
  const log = new WaitableLog();
  const outbox = await Outbox.open({
    files,
    folder: join(folder, "outbox"),
    clock: nodeClock(),
    random: nodeRandom(),
    log,
  });
  t.after(async () => {
    await outbox.close();
    await rm(folder, { recursive: true, force: true });
  });
  const save = (tensors: readonly (Tensor & { readonly name: string })[]): Promise<Hash> =>
    saveBase(outbox, opaqueModelSource(tensors), line);
  const train = async (
    base: Hash,
    { exec, settings = {}, parameters = {}, dataset }: Setup,
  ): Promise<TrainedExternally> => {
    const trainer = externalTrainerSchema.parse({ exec, samples: dataset !== undefined, ...settings });
    return await trainExternally(
      {
        outbox,
        files,
        evaluate: evaluateInChild,
        random: nodeRandom(),
        clock: nodeClock(),
        log,
        profile: testProfile(),
        config: parseConfig({ format: 1 }, "test"),
        enrolment: { fleet: "f", device: "d" },
        version: "test",
        commandOwner: process.getuid?.(),
        diskUse: () => Promise.resolve(freeDisk),
        clockErrorMs: () => null,
        onEvent: (name, text) => log.warn(name, { text }),
      },
      {
        line,
        invocation: 3,
        job: {
          base,
          recipe: externalRecipe(trainer),
          parameters,
          dataset: { parameters: {}, ...(dataset ?? { reader: "none" }) },
          seed: "7",
          samples: dataset === undefined ? null : ({ from: 0, to: 5 } satisfies SampleRange),
        },
        trainer,
        base: { versionId: base, folder: join(folder, "slot") },
        workFolder: join(folder, "work"),
        signal: new AbortController().signal,
        onProgress: (progress) => log.debug("progress", { ...progress }),
        dataUsed: () => Promise.resolve({ objects: [], bytes: 0 }),
      },
    );
  };
  return { folder, outbox, log, save, train };
}

/** An opaque model of two floats, saved and installed. */
async function tinyBase({ folder, save }: Awaited<ReturnType<typeof openTraining>>): Promise<Hash> {
  const versionId = await save([{ name: "a", dtype: "F32", shape: [2], bytes: new Uint8Array(8) }]);
  const header = Buffer.from('{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}');
  const length = Buffer.alloc(8);
  length.writeBigUInt64LE(BigInt(header.length));
  await nodeFiles().makeFolder(join(folder, "slot"));
  await writeFile(
    join(folder, "slot", "model.safetensors"),
    Buffer.concat([length, header, Buffer.alloc(8)]),
  );
  return versionId;
}

const shell = (script: string): readonly string[] => ["/bin/sh", "-c", script];
/** Changes the last byte of the base. */
const tune =
  'head -c -1 "$STEMMA_INPUT/base/model.safetensors" > model.safetensors; printf x >> model.safetensors; ';
const hasCode = (code: ErrorCode) => (error: unknown) => isStemmaError(error, code);

describe("a training by a program of the device's own", () => {
  it("gives it base, samples, seed and parameters, and saves what it leaves", async (t) => {
    const setup = await openTraining(t);
    const { folder, outbox, log, train } = setup;
    const program = join(folder, "own-trainer.mjs");
    await writeFile(program, await readFile(example), { mode: 0o644 });
    const samples = Array.from({ length: 60 }, (_, at) => {
      const values = [Math.sin(at), Math.cos(3 * at)];
      return JSON.stringify({ label: 2 * (values[0] ?? 0) - (values[1] ?? 0), shape: [2], values });
    });
    await writeFile(join(folder, "samples.jsonl"), samples.join("\n"));
    const floats = (count: number): Uint8Array => new Uint8Array(4 * count);
    const base = await setup.save([
      { name: "bias", dtype: "F32", shape: [1], bytes: floats(1) },
      { name: "weight", dtype: "F32", shape: [1, 2], bytes: floats(2) },
    ]);
    await nodeFiles().makeFolder(join(folder, "slot"));
    const { execFileSync } = await import("node:child_process");
    execFileSync(process.execPath, [example, "--new", join(folder, "slot", "model.safetensors"), "2", "1"]);
    const trained = await train(base, {
      exec: [process.execPath, program],
      parameters: { epochs: 4 },
      dataset: { reader: "samples", location: join(folder, "samples.jsonl") },
    });
    assert.ok(trained.metric !== null && trained.metric.after < trained.metric.before / 2);
    assert.equal(
      log.count("progress", ({ epoch, epochs }) => epoch === 4 && epochs === 4),
      1,
    );
    const entry = outbox.entry(trained.versionId);
    assert.deepEqual([entry?.bases, entry?.samples], [[base], { from: 0, to: 5 }]);
    const { record } = await outbox.record(trained.versionId);
    const recovered = await recoverModel(outbox.objects, trained.versionId, nodeClock());
    assert.equal(recovered.verifiedRoot, record.root);
    const { objects } = record;
    const metadata = decodeMetadata(await outbox.objects.read("metadata", objects.metadata as Hash));
    assert.deepEqual(
      [metadata["epochs"], metadata["trainer.program"], typeof metadata["training.samples"]],
      [4, "node own-trainer.mjs", "number"],
    );
    const opened = openProvenance(
      await outbox.objects.read("provenance", objects.provenance as Hash),
      await outbox.objects.read("openings", objects.openings as Hash),
    );
    const provenance = viewOf(opened);
    assert.deepEqual([provenance["exactness"], opened.provenance.data.length], ["none", 1]);
    assert.deepEqual(provenance["random"], { seed: "7", invocation: 3 });
    const { command } = provenance["course"] as unknown as { command: { files: readonly object[] } };
    assert.equal(command.files.length, 2);
    assert.doesNotMatch(JSON.stringify(provenance), new RegExp(folder), "no path of the device");
    const environment = decodeEnvironment(await outbox.objects.read("environment", objects.environment));
    assert.equal(environment["backend"], "external");
    const [attachment] = objects.attachments ?? [];
    const notes = await outbox.objects.read("attachment", attachment?.hash as Hash);
    assert.match(new TextDecoder().decode(notes), /from the seed 7/);
  });

  it("fails with a code where it leaves something else, and saves nothing", async (t) => {
    const setup = await openTraining(t);
    const { outbox, train } = setup;
    const base = await tinyBase(setup);
    const otherShape =
      'printf \'\\070\\0\\0\\0\\0\\0\\0\\0{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}  ' +
      "1234' > model.safetensors; ";
    // The second of its two floats becomes a NaN.
    const notANumber =
      "head -c -2 \"$STEMMA_INPUT/base/model.safetensors\" > model.safetensors; printf '\\300\\177' >> model.safetensors; ";
    for (const [script, code] of [
      [":", "TRAINER_OUTPUT_INVALID"],
      ["echo '{}' > metrics.json", "TRAINER_OUTPUT_INVALID"],
      [tune, "TRAINER_OUTPUT_INVALID"],
      [`${tune} echo NaN > metrics.json`, "TRAINER_OUTPUT_INVALID"],
      [`${tune} echo '{"loss": []}' > metrics.json`, "TRAINER_OUTPUT_INVALID"],
      [`${tune} mkfifo metrics.json`, "TRAINER_OUTPUT_INVALID"],
      [`${tune} ln -s /etc/hostname metrics.json`, "TRAINER_OUTPUT_INVALID"],
      ["echo '{}' > metrics.json; ln -s /dev/zero model.safetensors", "TRAINER_OUTPUT_INVALID"],
      ['echo "{}" > metrics.json; ln -s "$STEMMA_INPUT/base/model.safetensors" .', "TRAINER_OUTPUT_INVALID"],
      ["echo '{}' > metrics.json; mkdir model.safetensors", "TRAINER_OUTPUT_INVALID"],
      [
        'echo "{}" > metrics.json; head -c -1 "$STEMMA_INPUT/base/model.safetensors" > model.safetensors',
        "SAFETENSORS_TRUNCATED",
      ],
      ["echo '{}' > metrics.json; echo '{}' > model.safetensors", "SAFETENSORS_MALFORMED"],
      [`echo '{}' > metrics.json; ${otherShape}`, "ARCHITECTURE_MISMATCH"],
      [`${tune} echo '{}' > metrics.json; exit 1`, "TRAINER_FAILED"],
      [`${tune} echo '{}' > metrics.json; kill -SEGV $$`, "TRAINER_FAILED"],
      ['rm -rf "$PWD"', "TRAINER_OUTPUT_INVALID"],
      [`${tune} rm -rf "$STEMMA_OUTPUT" "$STEMMA_INPUT"`, "TRAINER_OUTPUT_INVALID"],
      [`${tune} echo '{}' > metrics.json; truncate -s 10G more`, "TRAINER_OUTPUT_TOO_LARGE"],
      [`echo '{}' > metrics.json; ${notANumber}`, "NOT_A_NUMBER"],
    ] as const)
      await assert.rejects(train(base, { exec: shell(script) }), hasCode(code), `${script}: ${code}`);
    assert.equal(outbox.newest(line)?.versionId, base);
  });

  it("has its model checked by the outputs that it leaves, which its settings may demand", async (t) => {
    const setup = await openTraining(t);
    const { folder, outbox, train, log } = setup;
    const opaque = await tinyBase(setup);
    const done = `${tune} echo '{}' > metrics.json; `;
    const check = {};
    for (const [script, settings, code] of [
      [done, { check }, "TRAINER_OUTPUT_INVALID"],
      [`${done} ln -s /etc/hostname check.npz`, {}, "TRAINER_OUTPUT_INVALID"],
      [`${done} echo x > check.npz`, {}, "MODEL_OPAQUE"],
    ] as const)
      await assert.rejects(
        train(opaque, { exec: shell(script), settings }),
        hasCode(code),
        `${script}: ${code}`,
      );

    const { model, layout } = await openLayoutVector(t, "mlp");
    const base = await saveBase(outbox, model, line, [{ name: layoutName, bytes: layout }]);
    const leave = (samples: string): readonly string[] =>
      shell(
        `cp ${layoutVectorPath("mlp.pt")} model.pt; echo '{}' > metrics.json; cp ${layoutVectorPath(samples)} check.safetensors`,
      );
    const trained = await train(base, {
      exec: leave("mlp.samples.safetensors"),
      settings: { check: { tolerance: 1e-4 } },
    });
    const { objects } = (await outbox.record(trained.versionId)).record;
    const metadata = decodeMetadata(await outbox.objects.read("metadata", objects.metadata as Hash));
    assert.equal(metadata["trainer.check.tolerance"], 1e-4);
    assert.equal(
      log.count("trainer-model", ({ text }) => String(text).includes("the engine's outputs")),
      1,
    );
    await assert.rejects(
      train(base, { exec: leave("gru.samples.safetensors") }),
      hasCode("DATASET_MALFORMED"),
    );
    assert.equal(outbox.newest(line)?.versionId, trained.versionId);
    assert.deepEqual((await nodeFiles().list(join(folder, "work"))).includes("check"), false);
  });

  it("may leave a model in another form, and not through a link", async (t) => {
    const setup = await openTraining(t);
    const { folder, outbox, train } = setup;
    await nodeFiles().makeFolder(join(folder, "slot"));
    const metrics = "echo '{}' > metrics.json; ";
    for (const [{ main, files }, name] of [
      [shardedModel(), "model.safetensors.index.json"],
      [shardedTorchModel(), "pytorch_model.bin.index.json"],
      [torchModel(), "pytorch_model.bin"],
      [tfjsModelFiles(), "model.json"],
      [torchModel(), "model.pt"],
      [torchModel(), "model.pth"],
      [vectorModel("two-3.keras"), "model.keras"],
      [vectorModel("cnn-2.h5"), "model.h5"],
    ] as const) {
      const given = join(folder, name);
      await nodeFiles().makeFolder(given);
      for (const [each, bytes] of Object.entries(files)) await writeFile(join(given, each), bytes);
      const model = await openModelFile(join(given, main));
      const described =
        model.architecture === undefined ? {} : { modelJson: Buffer.from(model.architecture) };
      const base = await saveBase(outbox, await modelSourceOfSafetensors(model.file, main, described), line);
      await model.close();
      const copied = main === name ? "" : `mv ${main} ${name}; `;
      const { versionId } = await train(base, { exec: shell(`${metrics} cp ${given}/* .; ${copied}`) });
      const rootOf = async (id: Hash): Promise<Hash> => (await outbox.record(id)).record.root;
      assert.equal(await rootOf(versionId), await rootOf(base), name);
      const linked = shell(`${metrics} cp ${given}/* .; rm -f ${main}; ln -s ${given}/${main} ${name}`);
      await assert.rejects(train(base, { exec: linked }), hasCode("TRAINER_OUTPUT_INVALID"), name);
    }
    const base = await tinyBase(setup);
    for (const [script, code] of [
      ["echo '{}' > model.json", "SAFETENSORS_MALFORMED"],
      [
        `cp ${folder}/model.safetensors.index.json/*.json model.safetensors.index.json`,
        "MODEL_FILE_MALFORMED",
      ],
      [`cp ${folder}/model.json/g2.bin model.pt`, "SAFETENSORS_TRUNCATED"],
      [`head -c 500 ${folder}/model.pt/state.pt > model.pt`, "MODEL_FILE_MALFORMED"],
      [`head -c 500 ${folder}/model.keras/two-3.keras > model.keras`, "MODEL_FILE_MALFORMED"],
      [`head -c 500 ${folder}/model.h5/cnn-2.h5 > model.h5`, "MODEL_FILE_MALFORMED"],
    ] as const)
      await assert.rejects(train(base, { exec: shell(metrics + script) }), hasCode(code), script);
  });

  it("leaves nothing running, not even what left its group", async (t) => {
    const setup = await openTraining(t);
    const base = await tinyBase(setup);
    // It has left the group before the program goes on: opening a pipe waits for the other side.
    const stray =
      "mkfifo ready; setsid sh -c 'echo $$ > ready; exec sleep 60' & read pid < ready; rm ready; echo $pid; ";
    const done = `${tune} echo '{}' > metrics.json; `;
    await setup.train(base, { exec: shell(`${done}${stray}`) });
    await assert.rejects(setup.train(base, { exec: shell(`${stray} exit 1`) }), hasCode("TRAINER_FAILED"));
    const pids = setup.log.events.flatMap(({ event, fields }) =>
      event === "trainer-output" ? [Number(fields["text"])] : [],
    );
    assert.equal(pids.length, 2);
    assert.equal(setup.log.count("trainer-left-processes"), 2);
    // Once it has ended it has no environment any more, even if its parent has not collected it.
    for (const pid of pids)
      await pollUntil(
        `the end of the process ${pid}`,
        async () => (await readFile(`/proc/${pid}/environ`, "utf8").catch(() => "")) === "",
      );
  });

  it("leaves attachments out that are links, pipes or folders, and says so", async (t) => {
    const setup = await openTraining(t);
    const base = await tinyBase(setup);
    const { versionId } = await setup.train(base, {
      exec: shell(
        `${tune} echo '{}' > metrics.json; mkdir -p attachments/inner; cd attachments; echo a > a; ln ` +
          "-s /etc/hostname b; mkfifo c",
      ),
    });
    const { record } = await setup.outbox.record(versionId);
    assert.deepEqual(
      record.objects.attachments?.map(({ name }) => name),
      ["a"],
    );
    const { fields } = await setup.log.until("attachments-dropped");
    assert.match(String(fields["text"]), /without b, c, inner/);
    const linked = `${tune} echo '{}' > metrics.json; ln -s /etc attachments`;
    const second = await setup.train(base, { exec: shell(linked) });
    assert.equal((await setup.outbox.record(second.versionId)).record.objects.attachments, undefined);
  });

  it("cannot change its inputs' originals, and gets nothing but the model where that is set", async (t) => {
    const setup = await openTraining(t);
    const base = await tinyBase(setup);
    const script =
      `${tune} echo '{}' > metrics.json; cd "$STEMMA_INPUT"; cat job.json >&2; chmod u+w base/*; echo x ` +
      "> base/model.safetensors; exit 1";
    await assert.rejects(setup.train(base, { exec: shell(script) }), (error) => {
      assert.ok(isStemmaError(error, "TRAINER_FAILED"));
      const job = JSON.parse(String(error.details["stderr"])) as Record<string, unknown>;
      assert.deepEqual([job["seed"], job["invocation"], job["samples"]], ["7", 3, null]);
      return true;
    });
    const model = await readFile(join(setup.folder, "slot", "model.safetensors"));
    await modelSourceOfSafetensors(fileOfBytes(model), "the slot");
  });
});

describe("parameters that a request names for such a training", () => {
  const trainer = externalTrainerSchema.parse({
    exec: ["/bin/true"],
    allow: { epochs: { min: 1, max: 9, whole: true }, rate: { min: 0, max: 1 }, mode: ["fast", true] },
  });

  it("are accepted within what agent.json allows", () => {
    const wanted = { epochs: 9, rate: 0.5, mode: "fast" };
    assert.deepEqual(requestedParameters(line, trainer, wanted), wanted);
    assert.deepEqual(requestedParameters(line, trainer, undefined), {});
  });

  it("are refused with their name where they are not", () => {
    for (const wanted of [
      { epochs: 10 },
      { epochs: 1.5 },
      { epochs: "3" },
      { epochs: Number.NaN },
      { rate: [0.5] },
      { mode: "slow" },
      { mode: { toString: "fast" } },
      { other: 1 },
      JSON.parse('{"__proto__": 1}') as object,
      { constructor: 1 },
      ["epochs"],
      "epochs=3",
    ])
      assert.throws(
        () => requestedParameters(line, trainer, wanted),
        hasCode("RECIPE_PARAMETERS_INVALID"),
        JSON.stringify(wanted),
      );
  });
});

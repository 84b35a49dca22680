/** A real outbox with a saver of files, and a line that runs a model, for tests of what programs save. */
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { TestContext } from "node:test";
import { Outbox } from "../../../../agent/outbox/outbox.js";
import { parseConfig } from "../../../../agent/settings/config.js";
import { FileSaver, type FileSaverOptions } from "../../../../agent/saving/save-file.js";
import { nodeClock, nodeRandom, silentLog } from "../../../../shared/adapters/node-ports.js";
import { nodeFiles } from "../../../../shared/files/node-files.js";
import type { ModelSource } from "../../../../shared/model/model.js";
import type { SaveModelOptions } from "../../../../shared/save/save-model.js";
import { evaluateInChild } from "../../../../shared/train/evaluate-in-child.js";
import { safetensorsChunks, type NamedSource } from "../../../../shared/tensor/safetensors.js";
import { sourceOfTensor, type Hash, type Tensor } from "../../../../shared/tensor/tensor.js";
import type { Files } from "../../../../shared/ports.js";
import { collectBytes, saveBase, testProfile } from "../../../helpers/agent-fixtures.js";
import { freeDisk } from "../../../helpers/free-disk.js";

export const line = "cam";

export function openOutbox(files: Files, folder = "/outbox"): Promise<Outbox> {
  return Outbox.open({ files, folder, clock: nodeClock(), random: nodeRandom(), log: silentLog() });
}

export function saverOptions(
  outbox: Outbox,
  home: string,
  profile: Readonly<Record<string, unknown>> = {},
): FileSaverOptions {
  return {
    outbox,
    home,
    files: nodeFiles(),
    evaluate: evaluateInChild,
    current: { active: () => Promise.resolve(undefined) },
    profile: testProfile(profile),
    config: parseConfig({ format: 1 }, "test"),
    enrolment: { fleet: "f", device: "d" },
    log: silentLog(),
    version: "test",
    random: nodeRandom(),
    diskUse: () => Promise.resolve(freeDisk),
    clockErrorMs: () => null,
  };
}

/** @param beforeStoring runs after a file was read and before it is stored */
export async function openSaver(
  t: TestContext,
  profile: Readonly<Record<string, unknown>> = {},
  beforeStoring: () => Promise<void> = () => Promise.resolve(),
) {
  const folder = await mkdtemp(join(tmpdir(), "stemma-save-"));
  const home = join(folder, "home");
  const outbox = await openOutbox(nodeFiles(), join(home, "outbox"));
  t.after(async () => {
    await outbox.close();
    await rm(folder, { recursive: true, force: true });
  });
  const options = saverOptions(outbox, home, profile);
  const saver = new FileSaver({
    ...options,
    diskUse: async () => {
      await beforeStoring();
      return await options.diskUse();
    },
  });
  return { folder, home, outbox, saver };
}

/** The line runs this model. */
export async function runs(
  outbox: Outbox,
  model: ModelSource,
  attachments?: SaveModelOptions["attachments"],
): Promise<Hash> {
  const versionId = await saveBase(outbox, model, line, attachments);
  await outbox.append({ type: "activated", atMs: 0, versionId, line, clockErrorMs: null, session: 1 });
  return versionId;
}

export async function writeModel(
  path: string,
  tensors: readonly Tensor[],
  names: readonly string[],
): Promise<string> {
  const sources = tensors.map((tensor, at): NamedSource => ({
    name: names[at] as string,
    source: sourceOfTensor(tensor),
  }));
  await writeFile(path, await collectBytes(safetensorsChunks(sources)));
  return path;
}

/**
 * The candidates of a search as files of whole models, with one lock around what is known of them, as the comparison
 * for `stemma bench nas` (the baseline of EvoStore's evaluation, §5.3). The nearest model is found by comparing with
 * every model; of its file only the tensors that are taken over are read.
 */
import { mkdir, open, readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { SerialQueue } from "../../shared/concurrency/serial-queue.js";
import { commonPrefix } from "../../shared/model/common-prefix.js";
import { readModelJson } from "../../shared/model/model-json.js";
import type { Architecture, Names } from "../../shared/model/model.js";
import { weightSlots } from "../../shared/model/architecture.js";
import { fileOfBytes, readSafetensors } from "../../shared/tensor/safetensors.js";
import { sha256 } from "../../shared/tensor/hash.js";
import { tensorOfSource, type Hash, type Tensor } from "../../shared/tensor/tensor.js";
import type { SavedCandidate, SearchStore } from "../../server/learning/nas/search-store.js";

interface KeptModel {
  readonly candidate: number;
  readonly architecture: Architecture;
  readonly names: Names;
}

export class FileStore implements SearchStore {
  readonly #folder: string;
  readonly #lock = new SerialQueue();
  /** In the order in which they were saved. */
  readonly #models = new Map<Hash, KeptModel>();

  constructor(folder: string) {
    this.#folder = folder;
  }

  inherit(modelJson: SavedCandidate["modelJson"]): ReturnType<SearchStore["inherit"]> {
    return this.#lock.run(async () => {
      const { architecture, names } = readModelJson(Buffer.from(JSON.stringify(modelJson)));
      const best = this.#nearest(architecture);
      if (best === undefined) return undefined;
      const ancestor = this.#models.get(best.versionId) as KeptModel;
      const prefix = commonPrefix(architecture, ancestor.architecture);
      if (prefix.weights.length === 0) return undefined;
      const nameOf = namesByPath(architecture, names);
      const ancestorNameOf = namesByPath(ancestor.architecture, ancestor.names);
      const file = await readSafetensors(
        fileOfBytes(await readFile(this.#fileOf(best.versionId))),
        best.versionId,
      );
      const entries = new Map(file.tensors.map((entry) => [entry.name, entry]));
      const tensors = new Map<string, Tensor>();
      for (const pair of prefix.weights) {
        const entry = entries.get(ancestorNameOf.get(pair.ancestor) ?? "");
        if (entry !== undefined)
          tensors.set(nameOf.get(pair.child) ?? "", await tensorOfSource(file.source(entry)));
      }
      return {
        versionId: best.versionId,
        layers: best.layers,
        tensors,
        frozen: prefix.layers.map(({ child }) => names.layers?.[child] ?? `${child}`),
        lease: "",
      };
    });
  }

  /** The model with most layers in common; of several the last one saved. */
  #nearest(architecture: Architecture): { readonly versionId: Hash; readonly layers: number } | undefined {
    let best: { versionId: Hash; layers: number } | undefined;
    for (const [versionId, model] of this.#models) {
      const layers = commonPrefix(architecture, model.architecture).layers.length;
      if (layers > 0 && layers >= (best?.layers ?? 0)) best = { versionId, layers };
    }
    return best;
  }

  async save({
    candidate,
    choices,
    quality,
    modelJson,
    file,
  }: SavedCandidate): ReturnType<SearchStore["save"]> {
    const bytes = file.length;
    const versionId = sha256(Buffer.concat([file, Buffer.from(`${candidate}`)]));
    await mkdir(this.#folder, { recursive: true });
    await writeDurably(this.#fileOf(versionId), file);
    await writeDurably(
      join(this.#folder, `${versionId}.json`),
      Buffer.from(JSON.stringify({ candidate, choices, quality, modelJson })),
    );
    const { architecture, names } = readModelJson(Buffer.from(JSON.stringify(modelJson)));
    await this.#lock.run(() => {
      this.#models.set(versionId, { candidate, architecture, names });
      return Promise.resolve();
    });
    return { versionId, root: sha256(file), bytes, newBytes: bytes };
  }

  async endLease(): Promise<void> {
    // Nothing is pinned: the lock is held until the ancestor was read.
  }

  retire(versionId: Hash): Promise<void> {
    return this.#lock.run(async () => {
      this.#models.delete(versionId);
      await rm(this.#fileOf(versionId));
      await rm(join(this.#folder, `${versionId}.json`));
    });
  }

  modelsOf(candidate: number): Promise<readonly Hash[]> {
    const found = [...this.#models].filter(([, model]) => model.candidate === candidate);
    return Promise.resolve(found.map(([versionId]) => versionId));
  }

  #fileOf(versionId: Hash): string {
    return join(this.#folder, `${versionId}.safetensors`);
  }
}

function namesByPath(architecture: Architecture, names: Names): ReadonlyMap<string, string> {
  return new Map(weightSlots(architecture).map(({ path }, leaf) => [path, names.leaves[leaf] ?? path]));
}

async function writeDurably(path: string, bytes: Uint8Array): Promise<void> {
  const file = await open(path, "w");
  try {
    await writeFile(file, bytes);
    await file.sync();
  } finally {
    await file.close();
  }
}

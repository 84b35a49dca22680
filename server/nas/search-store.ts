/** Where a search keeps its candidates, and a fleet of a server as such a place. */
import { qualityKey } from "../../shared/model/metadata.js";
import type { ServerOperations } from "../api/server-operations.js";
import type { ExportedModelJson } from "../../shared/model/model-json-export.js";
import { fileOfBytes, readSafetensors } from "../../shared/tensor/safetensors.js";
import { tensorOfSource, type Hash, type Tensor } from "../../shared/tensor/tensor.js";

/** What a candidate takes over from another model. */
export interface Inherited {
  readonly versionId: Hash;
  /** Layers of the common prefix. */
  readonly layers: number;
  /** By the candidate's names. */
  readonly tensors: ReadonlyMap<string, Tensor>;
  /** Names of the candidate's layers that get these tensors. */
  readonly frozen: readonly string[];
  /** A save under it stores only what is not inherited. */
  readonly lease: string;
}

export interface SavedCandidate {
  readonly candidate: number;
  readonly choices: readonly number[];
  /** Accuracy of held-out samples, in per cent. */
  readonly quality: number;
  readonly modelJson: ExportedModelJson;
  /** Its tensors as a safetensors file, by the names of its model.json. */
  readonly file: Buffer;
  /** Of what it inherited. */
  readonly lease?: string | undefined;
}

export interface StoredCandidate {
  readonly versionId: Hash;
  readonly root: Hash;
  /** Of its tensors: all, and those that were not stored before. */
  readonly bytes: number;
  readonly newBytes: number;
}

export interface SearchStore {
  /**
   * Finds the model with the longest common prefix, pins what the candidate takes over from it, and reads that.
   * @returns undefined where no model has its first layers with weights
   */
  inherit(modelJson: ExportedModelJson): Promise<Inherited | undefined>;
  /** Resolves when the candidate is durable; ends its lease. */
  save(candidate: SavedCandidate): Promise<StoredCandidate>;
  /** Ends a lease under which nothing was saved. */
  endLease(lease: string): Promise<void>;
  retire(versionId: Hash, because: string): Promise<void>;
  /** The stored models of this candidate that are not retired. */
  modelsOf(candidate: number): Promise<readonly Hash[]>;
}

/** What a search uses of a server. */
export type SearchOperations = Pick<
  ServerOperations,
  "transfer" | "endTransfer" | "recover" | "import" | "retire" | "listModels"
>;

/** Candidates are versions of the model `name`. */
export function storeInFleet(
  operations: SearchOperations,
  { fleet, name }: { readonly fleet: string; readonly name: string },
): SearchStore {
  return {
    inherit: (modelJson) => inheritFrom(operations, fleet, modelJson),
    async save({ candidate, choices, quality, modelJson, file, lease }) {
      const { summary, newTensorBytes } = await operations.import(
        { byteLength: file.length, chunks: inChunks(file) },
        {
          fleet,
          name,
          architecture: JSON.stringify(modelJson),
          metadata: {
            "search.candidate": candidate,
            "search.choices": choices.join(","),
            [qualityKey]: quality,
          },
          ...(lease === undefined ? {} : { lease }),
        },
      );
      const { versionId, record, tensorBytes } = summary!;
      return { versionId, root: record.root, bytes: tensorBytes, newBytes: newTensorBytes };
    },
    async endLease(lease) {
      await operations.endTransfer({ fleet, lease });
    },
    async retire(model, because) {
      await operations.retire({ fleet, model, because });
    },
    async modelsOf(candidate) {
      const { versions } = await operations.listModels({
        fleet,
        name,
        where: [`search.candidate=${candidate}`],
      });
      return versions.map(({ versionId }) => versionId);
    },
  };
}

async function inheritFrom(
  operations: SearchOperations,
  fleet: string,
  modelJson: ExportedModelJson,
): Promise<Inherited | undefined> {
  const { nearest, lease, frozen } = await operations.transfer({ fleet, modelJson: { ...modelJson } });
  if (nearest === null || lease === null) return undefined;
  if (nearest.tensors.length === 0) {
    await operations.endTransfer({ fleet, lease: lease.id });
    return undefined;
  }
  const stream = await operations.recover({ fleet, model: nearest.versionId, lease: lease.id });
  const chunks: Uint8Array[] = [];
  for await (const chunk of stream.chunks) chunks.push(chunk);
  await stream.report;
  const file = await readSafetensors(fileOfBytes(Buffer.concat(chunks)), "the inherited tensors");
  const tensors = new Map<string, Tensor>();
  for (const entry of file.tensors) tensors.set(entry.name, await tensorOfSource(file.source(entry)));
  return { versionId: nearest.versionId, layers: nearest.layers, tensors, frozen, lease: lease.id };
}

async function* inChunks(bytes: Buffer): AsyncGenerator<Uint8Array> {
  await Promise.resolve();
  yield bytes;
}

/** Defines where a search keeps its candidates, and implements that by a server's fleet. */
import { defined } from "../../../shared/defined.js";
import { qualityKey } from "../../../shared/model/metadata.js";
import type { ServerOperations } from "../../interface/api/server-operations.js";
import type { ExportedModelJson } from "../../../shared/model/model-json-export.js";
import { fileOfBytes, readSafetensors } from "../../../shared/tensor/safetensors.js";
import { tensorOfSource, type Hash, type Tensor } from "../../../shared/tensor/tensor.js";

/** The layers that a candidate takes over from another model. */
export interface Inherited {
  readonly versionId: Hash;
  /** Layers of the common prefix. */
  readonly layers: number;
  /** The tensors by the candidate's names. */
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
  /** The tensors as a safetensors file, by the names of its model.json. */
  readonly file: Buffer;
  /** The lease on the model that it inherits from. */
  readonly lease?: string | undefined;
  /** The device that trained it; undefined: this machine. */
  readonly device?: string | undefined;
}

export interface StoredCandidate {
  readonly versionId: Hash;
  readonly root: Hash;
  /** The bytes of its tensors: all, and those that were not stored before. */
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

/** The operations of a server that a search uses. */
export type SearchOperations = Pick<
  ServerOperations,
  "transfer" | "endLease" | "recover" | "import" | "retire" | "listModels"
>;

export interface FleetStoreOptions {
  readonly fleet: string;
  /** Candidates are versions of the model of this name. */
  readonly name: string;
  /** The longest training of a candidate in minutes; its lease lasts so long. Absent: an hour. */
  readonly minutes?: number | undefined;
  /** Weights by which the model is chosen that a candidate inherits from. */
  readonly rank?: string | undefined;
}

export function storeInFleet(
  operations: SearchOperations,
  { fleet, name, minutes, rank }: FleetStoreOptions,
): SearchStore {
  return {
    inherit: (modelJson) => inheritFrom(operations, { fleet, minutes, rank }, modelJson),
    async save({ candidate, choices, quality, modelJson, file, lease, device }) {
      const { summary, newTensorBytes } = await operations.import(
        { byteLength: file.length, chunks: inChunks(file) },
        {
          fleet,
          name,
          architecture: JSON.stringify(modelJson),
          metadata: {
            "search.candidate": candidate,
            "search.choices": choices.join(","),
            ...defined({ "search.device": device }),
            [qualityKey]: quality,
          },
          ...defined({ lease }),
        },
      );
      const { versionId, record, tensorBytes, ownBytes } = summary!;
      // Tensors that a device trained were stored when it reported them.
      const newBytes = device === undefined ? newTensorBytes : ownBytes;
      return { versionId, root: record.root, bytes: tensorBytes, newBytes };
    },
    async endLease(lease) {
      await operations.endLease({ fleet, lease });
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
  { fleet, minutes, rank }: Omit<FleetStoreOptions, "name">,
  modelJson: ExportedModelJson,
): Promise<Inherited | undefined> {
  const { nearest, lease, frozen } = await operations.transfer({
    fleet,
    modelJson: { ...modelJson },
    ...defined({ minutes, rank }),
  });
  if (nearest === null || lease === null) return undefined;
  if (nearest.tensors.length === 0) {
    await operations.endLease({ fleet, lease: lease.id });
    return undefined;
  }
  const tensors = await readRecovered(operations, { fleet, model: nearest.versionId, lease: lease.id });
  return { versionId: nearest.versionId, layers: nearest.layers, tensors, frozen, lease: lease.id };
}

/** The tensors of a stored model by name, or those of a lease by the child's names; each is verified. */
export async function readRecovered(
  operations: Pick<ServerOperations, "recover">,
  what: Parameters<ServerOperations["recover"]>[0],
): Promise<ReadonlyMap<string, Tensor>> {
  const stream = await operations.recover(what);
  const chunks: Uint8Array[] = [];
  for await (const chunk of stream.chunks) chunks.push(chunk);
  await stream.report;
  const file = await readSafetensors(fileOfBytes(Buffer.concat(chunks)), "the recovered tensors");
  const tensors = new Map<string, Tensor>();
  for (const entry of file.tensors) tensors.set(entry.name, await tensorOfSource(file.source(entry)));
  return tensors;
}

/** A file in memory as the operation `import` takes it. */
export async function* inChunks(bytes: Buffer): AsyncGenerator<Uint8Array> {
  await Promise.resolve();
  yield bytes;
}

/** Imports of small models over the operations. */
import assert from "node:assert/strict";
import { Readable } from "node:stream";
import type { ServerOperations } from "../../../../../../server/interface/api/server-operations.js";
import {
  fileOfBytes,
  readSafetensors,
  safetensorsChunks,
} from "../../../../../../shared/tensor/safetensors.js";
import { collectBytes, tinyImport } from "../../../../../helpers/agent-fixtures.js";
import { testFleet as fleet } from "../../../../../helpers/test-server.js";
import { drain } from "./step.js";

const oneChunk = (bytes: Uint8Array): AsyncIterable<Uint8Array> => Readable.from([bytes]);

/** Builds one import per seed; some of the base's tensors change. */
export async function importTiny(
  operations: ServerOperations,
  { seed, ...options }: { readonly seed: string; readonly name: string; readonly base?: string },
): Promise<unknown> {
  const { bytes, architecture } = await tinyImport(seed);
  return operations.import(
    { byteLength: bytes.length, chunks: oneChunk(bytes) },
    { fleet, architecture, metadata: { seed: Number(seed), note: "ä" }, ...options },
  );
}

/** A model with checkpoints of another model, and an optimizer's state with that one's tensors. */
export async function importWithParts(
  operations: ServerOperations,
  seed: string,
  iterations: readonly number[] = [20],
  moreBytes = 0,
): Promise<unknown> {
  const [model, other] = await Promise.all([tinyImport(seed), tinyImport("3")]);
  const byteLength = other.bytes.length + moreBytes;
  const files = [...iterations.map(() => other.bytes), other.bytes, model.bytes];
  const body = Buffer.concat(files);
  return operations.import(
    { byteLength: -1, chunks: oneChunk(body) },
    {
      fleet,
      name: "parts",
      architecture: model.architecture,
      parts: [...iterations.map((iteration) => ({ iteration, byteLength })), { byteLength }],
    },
  );
}

/** Leases what tiny:2 takes over, and reads it or saves a child under the lease. */
export async function transferAnd(
  operations: ServerOperations,
  step: "recover" | "import",
): Promise<unknown> {
  const { nearest, lease } = await operations.transfer({ fleet, model: "tiny:2" });
  assert.ok(nearest !== null && lease !== null);
  if (step === "recover")
    return drain(await operations.recover({ fleet, model: nearest.versionId, lease: lease.id }));
  const { bytes, architecture } = await tinyImport("5");
  return operations.import(
    { byteLength: bytes.length, chunks: oneChunk(bytes) },
    { fleet, name: "child", architecture, lease: lease.id },
  );
}

/** Only the first tensor of another model of that architecture. */
export async function importOnto(
  operations: ServerOperations,
  bases: { readonly onto: string; readonly base?: string },
): Promise<unknown> {
  const { bytes } = await tinyImport("4");
  const opened = await readSafetensors(fileOfBytes(bytes), "a tiny model");
  const [first] = opened.tensors;
  assert.ok(first);
  const part = await collectBytes(safetensorsChunks([{ name: first.name, source: opened.source(first) }]));
  return operations.import(
    { byteLength: part.length, chunks: oneChunk(part) },
    { fleet, name: "partial", ...bases },
  );
}

/** A family of fine-tunes to plan the storage of: how it is imported, and that it is the same afterwards. */
import assert from "node:assert/strict";
import type { ServerOperations } from "../../../../../server/interface/api/server-operations.js";
import { safetensorsChunks } from "../../../../../shared/tensor/safetensors.js";
import { sourceOfTensor } from "../../../../../shared/tensor/tensor.js";
import { fineTunedFamily, type FleetModel } from "../../../../helpers/archive-fleet.js";
import { tensorBytes } from "../../../../helpers/test-server.js";

export const models = fineTunedFamily("m", 31, 3);
export const options = { ratio: null, timeLimitMs: 300, readBytesPerSecond: 200e6 } as const;

export async function importAll(operations: ServerOperations, fleet: string): Promise<void> {
  for (const { name, base, tensors } of models) {
    const file = await fileOf(tensors);
    await operations.import(
      {
        byteLength: file.length,
        chunks: (async function* () {
          yield await Promise.resolve(file);
        })(),
      },
      { fleet, name, ...(base === undefined ? {} : { base }) },
    );
  }
}
export async function fileOf(tensors: FleetModel["tensors"]): Promise<Buffer> {
  const pieces: Uint8Array[] = [];
  for await (const chunk of safetensorsChunks(
    tensors.map((tensor) => ({ name: tensor.name, source: sourceOfTensor(tensor) })),
  ))
    pieces.push(Buffer.from(chunk));
  return Buffer.concat(pieces);
}
export async function assertSame(operations: ServerOperations, fleet: string): Promise<void> {
  for (const { name, tensors } of models) {
    const back = await tensorBytes(operations, name, fleet);
    for (const tensor of tensors)
      assert.equal(Buffer.compare(back[tensor.name]!, tensor.bytes), 0, `${name} ${tensor.name}`);
  }
}

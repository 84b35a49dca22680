/** Importing a model at the server, and fetching its objects as a device. */
import assert from "node:assert/strict";
import { nodeClock } from "../../../../../shared/adapters/node-ports.js";
import { sourceOfTensor } from "../../../../../shared/tensor/tensor.js";
import { safetensorsChunks } from "../../../../../shared/tensor/safetensors.js";
import { maxBlockBytes } from "../../../../../shared/wire/limits.js";
import type { BodyOf, ObjectRef } from "../../../../../shared/wire/messages.js";
import { runReceiver, slowLinkBudget } from "../../../../../shared/wire/transfer/run-receiver.js";
import { WindowBudget } from "../../../../../shared/wire/transfer/window-budget.js";
import { awaiting } from "../../../../helpers/awaiting.js";
import { ScriptedDevice } from "../../../../helpers/scripted-device.js";
import { testFleet, type TestServer } from "../../../../helpers/test-server.js";

/** Imports a model of one tensor; resolves with its version. */
export async function importModel(
  server: TestServer,
  name: string,
  bytes: Uint8Array,
  base?: string,
): Promise<string> {
  const chunks = safetensorsChunks([
    { name: "w", source: sourceOfTensor({ dtype: "F32", shape: [bytes.length / 4], bytes }) },
  ]);
  const { summary } = await server.handle.operations.import(
    { byteLength: -1, chunks },
    { fleet: testFleet, name, ...(base !== undefined && { base }) },
  );
  assert.ok(summary);
  return summary.versionId;
}

/** Fetches objects of a version with the real receiver; resolves with the stream. */
export async function fetchObjects(
  device: ScriptedDevice,
  versionId: BodyOf<"fetch">["versionId"],
  refs: readonly ObjectRef[],
  transfer: string,
): Promise<Buffer> {
  const pieces = new Map<number, Uint8Array>();
  const rawBytes = refs.reduce((sum, { byteLength }) => sum + byteLength, 0);
  const receiver = runReceiver(
    { transfer, objects: refs.length, rawBytes, maxBytes: 2 ** 30, maxBlockBytes },
    {
      clock: nodeClock(),
      budget: new WindowBudget(2 ** 24),
      slowBudget: slowLinkBudget(maxBlockBytes),
      send: (message) => {
        void device.send(message);
      },
      write: (offset, bytes) => {
        pieces.set(offset, bytes);
        return Promise.resolve();
      },
    },
  );
  let seen = 0;
  const feed = (): void => {
    for (; seen < device.envelopes.length; seen++) {
      const { body, transfer: of } = device.envelopes[seen] ?? {};
      if (body?.type === "manifest" && body.transfer === transfer) receiver.onManifest(body);
      if (body?.type === "block" && of === transfer) receiver.onBlock(body);
    }
  };
  device.client.on("message", () => {
    setImmediate(feed);
  });
  await device.send({
    type: "fetch",
    versionId,
    transfer,
    objects: refs,
    blockBytes: 64 * 1024,
    part: 0,
    parts: 1,
  });
  await awaiting(() => `the objects of the transfer ${transfer}`, receiver.finished);
  await device.send({ type: "transferDone", transfer });
  return Buffer.concat([...pieces].sort(([a], [b]) => a - b).map(([, bytes]) => bytes));
}

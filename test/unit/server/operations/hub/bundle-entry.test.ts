/** Entries of a bundle: what is written is read again, and what lies about itself is refused before it is read. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import fc from "fast-check";
import {
  ByteReader,
  decodeHeader,
  encodeHeader,
  entriesEnd,
  nextHeader,
  type EntryHeader,
} from "../../../../../server/operations/hub/bundle-entry.js";
import { isStemmaError } from "../../../../../shared/errors.js";
import { asyncIterableOf } from "../../../../../shared/tensor/async-iterable.js";
import type { Hash } from "../../../../../shared/tensor/tensor.js";

const id = "ab".repeat(32) as Hash;
const other = "cd".repeat(32) as Hash;
const tensor = { dtype: "F32", shape: [2, 3] } as const;
const headers: readonly EntryHeader[] = [
  { id, kind: "tree", bytes: 7 },
  { id, kind: "tensor", bytes: 24, tensor },
  { id, kind: "tensor", bytes: 5, tensor, code: 3, base: other },
];

async function readAll(bytes: Uint8Array, pieceBytes: number): Promise<readonly EntryHeader[]> {
  const pieces: Uint8Array[] = [];
  for (let at = 0; at < bytes.length; at += pieceBytes) pieces.push(bytes.subarray(at, at + pieceBytes));
  const reader = new ByteReader(asyncIterableOf(pieces));
  const found: EntryHeader[] = [];
  for (;;) {
    const header = await nextHeader(reader);
    if (header === undefined) return found;
    found.push(header);
    await reader.take(header.bytes);
  }
}

const whole = Buffer.concat([
  ...headers.flatMap((header) => [encodeHeader(header), new Uint8Array(header.bytes)]),
  entriesEnd,
]);

describe("entries of a bundle", () => {
  it("are read in pieces of any length", async () => {
    for (const pieceBytes of [1, 2, 3, 50, whole.length])
      assert.deepEqual(await readAll(whole, pieceBytes), headers);
  });

  it("are refused where they end early, wherever that is", async () => {
    for (let length = 0; length < whole.length; length++)
      await assert.rejects(readAll(whole.subarray(0, length), 64), { code: "BUNDLE_INVALID" });
  });

  it("are refused where a header contradicts itself", () => {
    const lies: readonly object[] = [
      { id, kind: "tensor", bytes: 24 },
      { id, kind: "tensor", bytes: 25, ...tensor },
      { id, kind: "tensor", bytes: 24, ...tensor, references: [other] },
      { id, kind: "tensor", bytes: 5, dtype: "F32", shape: [2 ** 20, 2 ** 19], code: 3 },
      { id, kind: "tensor", bytes: 2 ** 30, ...tensor, code: 3 },
      {
        id,
        kind: "tensor",
        bytes: 4,
        ...tensor,
        code: 3,
        references: Array.from({ length: 9 }, () => other),
      },
      { id, kind: "tree", bytes: 7, ...tensor },
      { id, kind: "tree", bytes: 7, code: 3 },
      { id, kind: "tree", bytes: 2 ** 30 },
      { id, kind: "tree", bytes: -1 },
      { id, kind: "engine", bytes: 7 },
      { id, kind: "predictions", bytes: 7 },
      { id: "x", kind: "tree", bytes: 7 },
      { id, kind: "tree", bytes: 7, more: 1 },
      [],
    ];
    for (const lie of lies)
      assert.throws(() => decodeHeader(Buffer.from(JSON.stringify(lie))), {
        code: /^(?:BUNDLE_INVALID|TENSOR_TOO_LARGE|SHAPE_INVALID)$/,
      });
  });

  it("give a typed error for any bytes", async () => {
    await fc.assert(
      fc.asyncProperty(fc.uint8Array({ maxLength: 200 }), fc.nat(whole.length), async (noise, at) => {
        const bytes = Buffer.concat([whole.subarray(0, at), noise, whole.subarray(at)]);
        await readAll(bytes, 32).catch((error: unknown) => {
          if (!isStemmaError(error)) throw error;
        });
      }),
    );
  });
});

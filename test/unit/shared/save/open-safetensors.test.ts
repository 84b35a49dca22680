// Files whose header is so long that a thread parses it are read as all others are.
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { isStemmaError } from "../../../../shared/errors.js";
import { maxInlineHeaderBytes, openSafetensors } from "../../../../shared/save/open-safetensors.js";
import { fileOfBytes, readSafetensors } from "../../../../shared/tensor/safetensors.js";
import { tensorOfSource } from "../../../../shared/tensor/tensor.js";

/** A file of `count` tensors of one byte, against the order of their names. */
function fileOf(count: number, metadata: Record<string, string> = {}): Buffer {
  const tensors: Record<string, unknown> = { __metadata__: metadata };
  for (let i = 0; i < count; i++)
    tensors[`tensor/${String(count - i).padStart(40, "0")}`] = {
      dtype: "U8",
      shape: [1],
      data_offsets: [i, i + 1],
    };
  return withHeader(JSON.stringify(tensors), Buffer.from(Array.from({ length: count }, (_, i) => i % 251)));
}

function withHeader(text: string, data: Uint8Array): Buffer {
  const header = Buffer.from(text);
  const length = Buffer.alloc(8);
  length.writeBigUInt64LE(BigInt(header.length));
  return Buffer.concat([length, header, data]);
}

describe("a file with a long header", () => {
  const count = 12_345;
  const bytes = fileOf(count, { format: "pt", ä: "ö" });

  it("has the tensors, metadata and bytes that the reader finds, and their canonical order", async () => {
    assert.ok(bytes.length - count > 8 + maxInlineHeaderBytes);
    const expected = await readSafetensors(fileOfBytes(bytes), "long");
    const opened = await openSafetensors(fileOfBytes(bytes), "long");
    assert.deepEqual(opened.tensors, expected.tensors);
    assert.deepEqual({ ...opened.metadata }, { ...expected.metadata });
    assert.equal(opened.dataStart, expected.dataStart);
    assert.equal(opened.keptText, expected.text);
    assert.deepEqual(
      [...opened.canonicalOrder],
      Array.from({ length: count }, (_, i) => count - 1 - i),
    );
    assert.deepEqual(await opened.readData(), await expected.readData());
    for (const entry of expected.tensors.slice(-2))
      assert.deepEqual(
        (await tensorOfSource(opened.source(entry))).bytes,
        (await tensorOfSource(expected.source(entry))).bytes,
      );
  });

  it("is refused with the reader's own words", async () => {
    const text = bytes.subarray(8, -count).toString();
    const data = bytes.subarray(-count);
    const files = {
      "no JSON": withHeader(text.slice(0, -1), data),
      "bytes beyond its tensors": Buffer.concat([bytes, Buffer.alloc(3)]),
      "fewer bytes than its tensors": bytes.subarray(0, -5),
      "a header longer than the file": bytes.subarray(0, 1_000_100),
      "two tensors of one name": withHeader(text.replace(`0001"`, `0002"`), data),
      "no brace": withHeader(text.replace("{", " "), data),
    };
    const reasonOf = async (open: Promise<unknown>): Promise<unknown> => {
      const error: unknown = await open.then(
        () => "accepted",
        (reason: unknown) => reason,
      );
      return isStemmaError(error) ? { code: error.code, message: error.message } : error;
    };
    for (const [name, file] of Object.entries(files)) {
      const expected = await reasonOf(readSafetensors(fileOfBytes(file), name));
      assert.notEqual(expected, "accepted", name);
      assert.deepEqual(await reasonOf(openSafetensors(fileOfBytes(file), name)), expected, name);
    }
  });

  it("is refused where its file ends while it is read", async () => {
    const opened = await openSafetensors(
      { ...fileOfBytes(bytes.subarray(0, -2)), size: () => Promise.resolve(bytes.length) },
      "cut",
    );
    await assert.rejects(opened.readData(), { code: "SAFETENSORS_TRUNCATED" });
  });
});

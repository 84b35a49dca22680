/** Files of other formats are recognised by their first bytes, and safetensors never are. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { isStemmaError } from "../../../../shared/errors.js";
import { openSafetensors } from "../../../../shared/save/open-safetensors.js";
import { recognizeForeignFile } from "../../../../shared/tensor/foreign-file.js";
import { fileOfBytes, readSafetensors } from "../../../../shared/tensor/safetensors.js";

const padded = (...bytes: number[]): Buffer => Buffer.concat([Buffer.from(bytes), Buffer.alloc(60)]);
const foreign: Readonly<Record<string, readonly [bytes: Buffer, names: string]>> = {
  "a PyTorch archive": [padded(0x50, 0x4b, 3, 4, 0, 0, 8, 8), "ZIP"],
  "a pickle": [padded(0x80, 2, 0x8a, 0x0a), "pickle"],
  "a Keras .h5": [padded(0x89, 0x48, 0x44, 0x46, 0x0d, 0x0a, 0x1a, 0x0a), "HDF5"],
  "an ONNX model": [padded(8, 7, 0x12, 7, 0x70, 0x79, 0x74, 0x6f), "ONNX"],
  "a TFLite model": [padded(0x1c, 0, 0, 0, 0x54, 0x46, 0x4c, 0x33), "TensorFlow Lite"],
  "a GGUF file": [Buffer.from("GGUF\u0003\0\0\0aaaaaaaaaaaa"), "GGUF"],
  "a NumPy array": [padded(0x93, 0x4e, 0x55, 0x4d, 0x50, 0x59, 1, 0), "NumPy"],
  "a gzip file": [padded(0x1f, 0x8b, 8), "gzip"],
  "a model.json": [Buffer.from('{\n  "format": "layers-model", "modelTopology": {}}'), "JSON"],
  "a short JSON file": [Buffer.from("{}"), "JSON"],
};

describe("a file of another format", () => {
  for (const [what, [bytes, name]] of Object.entries(foreign))
    it(`${what} is named, with the way to convert it`, async () => {
      await assert.rejects(
        readSafetensors(fileOfBytes(bytes), "/models/mine"),
        (error: Error & { code?: string }) =>
          error.code === "SAFETENSORS_MALFORMED" &&
          error.message.startsWith("/models/mine is not a safetensors file but ") &&
          error.message.includes(name),
      );
    });

  it("that begins like ONNX is told from a SavedModel by its fields", async () => {
    const graph = Buffer.from([0x12, 2, 0x0a, 0]);
    const refusal = async (...parts: readonly Buffer[]): Promise<string> => {
      const error: unknown = await openSafetensors(fileOfBytes(Buffer.concat(parts)), "x").catch(
        (e: unknown) => e,
      );
      assert.ok(isStemmaError(error, "SAFETENSORS_MALFORMED"));
      return error.message;
    };
    const version = Buffer.from([8, 1]);
    assert.match(await refusal(version, graph, graph), /SavedModel/);
    assert.match(await refusal(version, Buffer.from([0x12, 9, 0x0a])), /SavedModel/);
    assert.match(await refusal(version, graph, Buffer.from([0x3a, 0])), /ONNX/);
  });

  it("that no magic bytes tell stays a malformed file", () => {
    assert.equal(recognizeForeignFile(Buffer.from("this is not a safetensors file")), undefined);
    assert.equal(recognizeForeignFile(new Uint8Array(0)), undefined);
  });

  it("is never seen in a safetensors file whose header's length looks like one", async () => {
    // A header of 0x8b1f = 35,615 bytes begins like gzip.
    const entry = '{"a":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}}';
    const header = Buffer.from(entry.padEnd(0x8b1f, " "));
    const length = Buffer.alloc(8);
    length.writeBigUInt64LE(BigInt(header.length));
    const file = await readSafetensors(fileOfBytes(Buffer.concat([length, header])), "x");
    assert.equal(file.tensors.length, 1);
  });
});

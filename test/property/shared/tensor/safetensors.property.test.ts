/** Properties of safetensors: any tensors in any order are read back as written, from pieces of any size. */
import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import "../../../helpers/property-seed.js";
import { asyncIterableOf } from "../../../../shared/tensor/async-iterable.js";
import { dtypeBits, dtypes, tensorByteLength } from "../../../../shared/tensor/dtype.js";
import { fileOfBytes, readSafetensors, safetensorsChunks } from "../../../../shared/tensor/safetensors.js";
import { tensorOfSource } from "../../../../shared/tensor/tensor.js";
import { tensorId, tensorIdOfSource } from "../../../../shared/tensor/hash.js";
import { modelSourceOfSafetensors, opaqueModelSource } from "../../../../shared/save/model-source.js";
import { safetensorsOfModel } from "../../../../shared/recover/recovered-file.js";
import { treeRoot } from "../../../../shared/model/tree.js";

const runs = { numRuns: process.env["STEMMA_TEST_FULL"] === "1" ? 3_000 : 150 };

const tensor = fc
  .record({
    name: fc.string({ unit: "binary", maxLength: 8 }).filter((name) => name !== "__metadata__"),
    dtype: fc.constantFrom(...dtypes),
    shape: fc.array(fc.integer({ min: 0, max: 4 }), { maxLength: 4 }),
    seed: fc.infiniteStream(fc.integer({ min: 0, max: 255 })),
  })
  .map(({ name, dtype, shape, seed }) => {
    const wholeBytesShape = dtypeBits(dtype) < 8 ? [...shape, 4] : shape;
    return {
      name,
      dtype,
      shape: wholeBytesShape,
      bytes: Uint8Array.from(
        { length: tensorByteLength(dtype, wholeBytesShape) },
        () => seed.next().value as number,
      ),
    };
  });
const tensors = fc.uniqueArray(tensor, { selector: ({ name }) => name, maxLength: 8 });
const metadata = fc.option(
  fc.dictionary(fc.string({ unit: "binary" }), fc.string({ unit: "binary" }), {
    maxKeys: 3,
    noNullPrototype: true,
  }),
  { nil: undefined },
);

test("tensors, order, metadata and root survive a file, and the file is rewritten byte for byte", async () => {
  await fc.assert(
    fc.asyncProperty(tensors, metadata, fc.integer({ min: 1, max: 7 }), async (given, notes, pieceBytes) => {
      const pieces = given.map(({ name, ...content }) => ({
        name,
        source: {
          dtype: content.dtype,
          shape: content.shape,
          byteLength: content.bytes.length,
          chunks: () =>
            asyncIterableOf(
              Array.from({ length: Math.ceil(content.bytes.length / pieceBytes) }, (_, i) =>
                content.bytes.subarray(i * pieceBytes, (i + 1) * pieceBytes),
              ),
            ),
        },
      }));
      const parts: Uint8Array[] = [];
      for await (const chunk of safetensorsChunks(pieces, notes === undefined ? {} : { metadata: notes }))
        parts.push(chunk);
      const file = new Uint8Array(Buffer.concat(parts));
      const read = await readSafetensors(fileOfBytes(file), "written");
      assert.deepEqual(read.metadata, notes);
      for (const entry of read.tensors) {
        const original = given.find(({ name }) => name === entry.name);
        assert.deepEqual({ name: entry.name, ...(await tensorOfSource(read.source(entry))) }, original);
        assert.equal(
          await tensorIdOfSource(read.source(entry)),
          tensorId(entry, original?.bytes as Uint8Array),
        );
      }
      const model = await modelSourceOfSafetensors(fileOfBytes(file), "written");
      assert.equal(
        treeRoot(model.leaves),
        treeRoot(opaqueModelSource(given).leaves),
        "the order in a file is not part of what a model is",
      );
      const out = safetensorsOfModel(model);
      const again: Uint8Array[] = [];
      for await (const chunk of safetensorsChunks(out.tensors, out.options)) again.push(chunk);
      assert.deepEqual(new Uint8Array(Buffer.concat(again)), file);
    }),
    runs,
  );
});

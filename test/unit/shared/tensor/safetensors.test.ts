/** safetensors: golden files are rewritten byte for byte; every malformed header and stream is refused. */
import assert from "node:assert/strict";
import { mkdtemp, open, readdir, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, test } from "node:test";
import { parseSafetensorsHeader } from "../../../../shared/tensor/safetensors-header.js";
import { asyncIterableOf } from "../../../../shared/tensor/async-iterable.js";
import { isStemmaError, type ErrorCode } from "../../../../shared/errors.js";
import { nodeFiles } from "../../../../shared/files/node-files.js";
import type { DType } from "../../../../shared/tensor/dtype.js";
import { tensorIdOfSource } from "../../../../shared/tensor/hash.js";
import {
  fileOfBytes,
  readSafetensors,
  safetensorsByteLength,
  safetensorsChunks,
  writeSafetensors,
} from "../../../../shared/tensor/safetensors.js";
import { tensorOfSource, type TensorSource } from "../../../../shared/tensor/tensor.js";
import { modelSourceOfSafetensors, opaqueModelSource } from "../../../../shared/save/model-source.js";
import { safetensorsOfModel } from "../../../../shared/recover/recovered-file.js";
import { treeRoot } from "../../../../shared/model/tree.js";
import { hex, unhex, vectorBytes, vectors } from "../model/vectors.js";

const refusal =
  (code: ErrorCode) =>
  (error: unknown): boolean =>
    isStemmaError(error, code);

function fileOf(
  header: string | Uint8Array,
  data: Uint8Array = new Uint8Array(0),
  claimed?: bigint,
): Uint8Array {
  const bytes = Buffer.from(header as string);
  const length = Buffer.alloc(8);
  length.writeBigUInt64LE(claimed ?? BigInt(bytes.length));
  return new Uint8Array(Buffer.concat([length, bytes, data]));
}
async function allBytes(chunks: AsyncIterable<Uint8Array>): Promise<Uint8Array> {
  const parts: Uint8Array[] = [];
  for await (const chunk of chunks) parts.push(chunk);
  return new Uint8Array(Buffer.concat(parts));
}
async function roundTrip(file: Uint8Array): Promise<Uint8Array> {
  const { tensors, options } = safetensorsOfModel(await modelSourceOfSafetensors(fileOfBytes(file), "test"));
  return await allBytes(safetensorsChunks(tensors, options));
}

interface Golden {
  metadata: Record<string, string>;
  tensors: { name: string; dtype: DType; shape: number[]; bytes: string; id: string }[];
  opaqueRoot: string;
}

describe("safetensors", () => {
  const golden = vectors<Golden>("edge-values.json");

  test("a file of edge values: header, tensors, ids, root", async () => {
    const file = await readSafetensors(fileOfBytes(vectorBytes("edge-values.safetensors")), "edge-values");
    assert.deepEqual(file.metadata, golden.metadata);
    assert.deepEqual(
      file.tensors.map(({ name, dtype, shape }) => ({ name, dtype, shape })),
      golden.tensors.map(({ name, dtype, shape }) => ({ name, dtype, shape })),
    );
    for (const [i, tensor] of file.tensors.entries()) {
      assert.equal(hex((await tensorOfSource(file.source(tensor))).bytes), golden.tensors[i]?.bytes);
      assert.equal(await tensorIdOfSource(file.source(tensor)), golden.tensors[i]?.id);
    }
    const model = await modelSourceOfSafetensors(
      fileOfBytes(vectorBytes("edge-values.safetensors")),
      "edge-values",
    );
    assert.equal(treeRoot(model.leaves), golden.opaqueRoot);
    assert.notEqual(
      model.names.fileHeader,
      undefined,
      "its metadata is in no order that names keep, so the header is kept as it stands",
    );
    const plain = await modelSourceOfSafetensors(
      fileOfBytes(fileOf('{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}   ', Uint8Array.of(7))),
      "plain",
    );
    assert.equal(plain.names.fileHeader, undefined, "a header in canonical form need not be kept");
  });

  test("complete files are rewritten byte for byte: in canonical form, and as another tool wrote them", async () => {
    for (const name of ["edge-values.safetensors", "other-tool.safetensors"])
      assert.deepEqual(await roundTrip(vectorBytes(name)), vectorBytes(name));
    const spaced = fileOf(
      '{\t"1" : {"data_offsets":[0,1], "dtype":"U8" ,"shape":[]},\n"0":{"dtype":"U8","shape":[0],"data_offsets":[1,1]}, "\\u0061":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}}',
      Uint8Array.of(1, 2),
    );
    assert.deepEqual(await roundTrip(spaced), spaced);
    const nothing = fileOf("{}");
    assert.deepEqual(await roundTrip(nothing), nothing);
  });

  test("real files are rewritten byte for byte", async (context) => {
    const folder = join(process.env["STEMMA_DATA"] ?? join(process.cwd(), "../shared/data"), "fine-tunes");
    const names = await readdir(folder).catch(() => []);
    if (names.length === 0) {
      context.skip(`${folder} is not there`);
      return;
    }
    for (const name of names.filter((file) => file.endsWith(".safetensors"))) {
      const bytes = new Uint8Array(await readFile(join(folder, name)));
      assert.equal(Buffer.compare(await roundTrip(bytes), bytes), 0, name);
    }
  });

  test("a kept header is ignored when the tensors have changed since", async () => {
    const model = await modelSourceOfSafetensors(fileOfBytes(vectorBytes("other-tool.safetensors")), "other");
    const { tensors, options } = safetensorsOfModel(model);
    const renamed = tensors.map(({ name, source }) => ({ name: `${name}2`, source }));
    const again = await readSafetensors(
      fileOfBytes(await allBytes(safetensorsChunks(renamed, options))),
      "again",
    );
    assert.deepEqual(
      again.tensors.map(({ name }) => name),
      ["b2", "a2"],
    );
    assert.deepEqual(again.metadata, { 10: "x", 9: "y" });
  });

  test("the length of a file is known before it is written, and short or long sources are refused", async () => {
    const source = (given: number): TensorSource => ({
      dtype: "F32",
      shape: [2],
      byteLength: 8,
      chunks: () => asyncIterableOf([new Uint8Array(given)]),
    });
    const tensors = [{ name: "a", source: source(8) }];
    const written: Uint8Array[] = [];
    const length = await writeSafetensors(
      {
        write: (bytes) => {
          written.push(bytes);
          return Promise.resolve();
        },
      },
      tensors,
      { metadata: { made: "here" } },
    );
    assert.equal(length, safetensorsByteLength(tensors, { metadata: { made: "here" } }));
    assert.equal(length, Buffer.concat(written).length);
    assert.equal((length - 8) % 8, 0, "tensors begin at a multiple of 8");
    for (const given of [7, 9])
      await assert.rejects(
        allBytes(safetensorsChunks([{ name: "a", source: source(given) }])),
        refusal("TENSOR_SIZE_MISMATCH"),
      );
    await assert.rejects(
      allBytes(safetensorsChunks([...tensors, ...tensors])),
      refusal("SAFETENSORS_MALFORMED"),
    );
    await assert.rejects(
      allBytes(safetensorsChunks([{ name: "__metadata__", source: source(8) }])),
      refusal("SAFETENSORS_MALFORMED"),
    );
    await assert.rejects(
      allBytes(safetensorsChunks([{ name: "\ud800", source: source(8) }])),
      refusal("SAFETENSORS_MALFORMED"),
    );
  });

  test("names with a special meaning in JavaScript are accepted like others", async () => {
    const tensor = { dtype: "U8" as const, shape: [1], bytes: Uint8Array.of(7) };
    const model = opaqueModelSource(
      ["__proto__", "constructor", "10", "9", ""].map((name) => ({ name, ...tensor })),
      { __proto__2: "x", toJSON: "y" },
    );
    const { tensors, options } = safetensorsOfModel(model);
    const file = await readSafetensors(
      fileOfBytes(await allBytes(safetensorsChunks(tensors, options))),
      "special",
    );
    assert.deepEqual(
      file.tensors.map(({ name }) => name),
      ["__proto__", "constructor", "10", "9", ""],
    );
    assert.deepEqual(file.metadata, { __proto__2: "x", toJSON: "y" });
  });
});

const one = '"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}';
const malformedHeaders: readonly [why: string, header: string | Uint8Array, data?: number][] = [
  ["no header", ""],
  ["no object", "[]"],
  ["white space first", ` {${one}}`, 2],
  ["text behind", `{${one}}x`, 2],
  ["two objects", `{${one}}{}`, 2],
  ["a line feed as padding", `{${one}}\n`, 2],
  ["a NUL as padding", `{${one}}\0`, 2],
  ["no UTF-8", Buffer.from([0x7b, 0x22, 0xff, 0x22, 0x3a, 0x7b, 0x7d, 0x7d])],
  ["a byte order mark", `\ufeff{${one}}`, 2],
  ["a name twice", `{${one},${one}}`, 2],
  ["a name twice, once escaped", `{${one},"\\u0061":{"dtype":"U8","shape":[0],"data_offsets":[2,2]}}`, 2],
  ["a comma at the end", `{${one},}`, 2],
  ["half a surrogate pair", '{"\\ud800":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}}'],
  ["a bare control character", '{"a\n":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}}'],
  ["a tensor that is not an object", '{"a":1}'],
  ["an unknown dtype", `{${one.replace("U8", "U9")}}`, 2],
  ["a dtype from the prototype", `{${one.replace("U8", "constructor")}}`, 2],
  ["a member too many", `{${one.replace("]}", '],"x":1}')}}`, 2],
  ["no dtype", '{"a":{"shape":[0],"data_offsets":[0,0]}}'],
  ["no shape", '{"a":{"dtype":"U8","data_offsets":[0,1]}}', 1],
  ["no offsets", '{"a":{"dtype":"U8","shape":[0]}}'],
  ["three offsets", `{${one.replace("[0,2]", "[0,2,2]")}}`, 2],
  ["a fraction", `{${one.replace("[0,2]", "[0,2.0]")}}`, 2],
  ["an exponent", `{${one.replace("[0,2]", "[0,2e0]")}}`, 2],
  ["a leading zero", `{${one.replace("[0,2]", "[0,02]")}}`, 2],
  ["negative zero", `{${one.replace("[0,2]", "[-0,2]")}}`, 2],
  ["a negative extent", `{${one.replace("[2]", "[-2]")}}`, 2],
  ["a plus", `{${one.replace("[0,2]", "[0,+2]")}}`, 2],
  ["a text for a number", `{${one.replace("[0,2]", '[0,"2"]')}}`, 2],
  ["2^53", `{${one.replace("[2]", "[9007199254740992]")}}`, 2],
  ["a product beyond counting", `{${one.replace("[2]", "[4294967296,4294967296,4294967296]")}}`, 2],
  ["too many dimensions", `{${one.replace("[2]", `[2${",1".repeat(40)}]`)}}`, 2],
  ["fewer bytes than the shape", `{${one.replace("[2]", "[3]")}}`, 2],
  ["more bytes than the shape", `{${one.replace("[2]", "[1]")}}`, 2],
  ["half a byte", '{"a":{"dtype":"F4","shape":[3],"data_offsets":[0,2]}}', 2],
  ["an end before its begin", `{${one.replace("[0,2]", "[2,0]")}}`, 2],
  ["a hole in front", `{${one.replace("[0,2]", "[1,3]")}}`, 3],
  ["an overlap", `{${one},"b":{"dtype":"U8","shape":[2],"data_offsets":[1,3]}}`, 3],
  ["the same bytes twice", `{${one},"b":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}}`, 2],
  ["a hole between", `{${one},"b":{"dtype":"U8","shape":[1],"data_offsets":[3,4]}}`, 4],
  ["bytes behind", `{${one}}`, 3],
  ["metadata that are not an object", `{"__metadata__":[],${one}}`, 2],
  ["metadata that are not texts", `{"__metadata__":{"a":1},${one}}`, 2],
  ["metadata of a null text", `{"__metadata__":{"a":null},${one}}`, 2],
  ["nesting", `{"a":${"[".repeat(200_000)}`],
  ["a literal that is none", '{"a":nul}'],
  ["a comment", `{/**/${one}}`, 2],
  ["an unknown escape", '{"\\x61":{}}'],
];

test("metadata that are null, as some writers have them, are none", () => {
  const header = Buffer.from(`{"__metadata__":null,${one}}`);
  assert.equal(parseSafetensorsHeader(header, 2, "null.safetensors").metadata, undefined);
});

describe("malformed safetensors", () => {
  for (const [why, header, data = 0] of malformedHeaders) {
    test(why, async () => {
      await assert.rejects(
        readSafetensors(fileOfBytes(fileOf(header, new Uint8Array(data))), "bad"),
        refusal("SAFETENSORS_MALFORMED"),
      );
    });
  }
  test("a truncated file is distinguished from a malformed one", async () => {
    const file = fileOf(`{${one}}`, Uint8Array.of(1, 2));
    await assert.rejects(
      readSafetensors(fileOfBytes(file.subarray(0, 5)), "cut"),
      refusal("SAFETENSORS_TRUNCATED"),
    );
    await assert.rejects(
      readSafetensors(fileOfBytes(file.subarray(0, 20)), "cut"),
      refusal("SAFETENSORS_TRUNCATED"),
    );
    await assert.rejects(
      readSafetensors(fileOfBytes(file.subarray(0, file.length - 1)), "cut"),
      refusal("SAFETENSORS_TRUNCATED"),
    );
    let size = file.length;
    const shrinking = await readSafetensors(
      {
        ...fileOfBytes(file),
        read: (target, position) => fileOfBytes(file.subarray(0, size)).read(target, position),
      },
      "shrinking",
    );
    size--;
    await assert.rejects(
      tensorIdOfSource(shrinking.source(shrinking.tensors[0] as (typeof shrinking.tensors)[number])),
      refusal("SAFETENSORS_TRUNCATED"),
    );
  });
  test("claims of header size are checked before anything is allocated", async () => {
    for (const claimed of [100_000_001n, 2n ** 63n, 2n ** 64n - 1n])
      await assert.rejects(
        readSafetensors(fileOfBytes(fileOf(`{${one}}`, Uint8Array.of(1, 2), claimed)), "claim"),
        refusal("SAFETENSORS_MALFORMED"),
      );
    await assert.rejects(
      readSafetensors(fileOfBytes(fileOf(`{${one}}`, Uint8Array.of(1, 2), 99_999_999n)), "claim"),
      refusal("SAFETENSORS_TRUNCATED"),
    );
  });
});

test("a file larger than 4 GiB is opened and read at its end", async () => {
  const folder = await mkdtemp(join(tmpdir(), "stemma-large-"));
  try {
    const path = join(folder, "large.safetensors");
    const extent = 5 * 2 ** 30;
    const header = Buffer.from(
      `{"hole":{"dtype":"U8","shape":[${extent}],"data_offsets":[0,${extent}]},"end":{"dtype":"F32","shape":[],"data_offsets":[${extent},${extent + 4}]}}`,
    );
    const start = Buffer.concat([Buffer.alloc(8), header]);
    start.writeBigUInt64LE(BigInt(header.length));
    const sparse = await open(path, "w");
    await sparse.write(start, 0, start.length, 0);
    await sparse.write(unhex("010080 7f".replace(" ", "")), 0, 4, start.length + extent);
    await sparse.close();
    const file = await nodeFiles().open(path, "read");
    try {
      const opened = await readSafetensors(file, path);
      assert.deepEqual(
        opened.tensors.map(({ end }) => end),
        [extent, extent + 4],
      );
      assert.equal(
        hex(
          (await tensorOfSource(opened.source(opened.tensors[1] as (typeof opened.tensors)[number]))).bytes,
        ),
        "0100807f",
      );
      let first = 0;
      for await (const chunk of opened
        .source(opened.tensors[0] as (typeof opened.tensors)[number])
        .chunks()) {
        first = chunk.length;
        break;
      }
      assert.ok(first > 0 && first <= 64 * 2 ** 20, "large tensors come in pieces");
    } finally {
      await file.close();
    }
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
});

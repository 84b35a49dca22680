/**
 * Hostile bytes: valid files and objects with seeded mutations. A decoder always returns or throws a
 * StemmaError, and memory stays bounded. 2,000 mutations, or 100,000 with STEMMA_TEST_FULL=1;
 * STEMMA_TEST_SEED repeats a run.
 */
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { StemmaError } from "../../../../shared/errors.js";
import { decodeArchitecture, encodeArchitecture } from "../../../../shared/model/architecture.js";
import { decodeEnvironment, encodeEnvironment } from "../../../../shared/model/environment.js";
import { readModelJson } from "../../../../shared/model/model-json.js";
import { decodeNames, encodeNames } from "../../../../shared/model/names.js";
import { decodeOwnerMap, encodeOwnerMap, ownerMapOf } from "../../../../shared/model/owner-map.js";
import { decodeCheckedRecord, decodeSaveRecord } from "../../../../shared/model/save-record.js";
import { decodeTree, encodeTree } from "../../../../shared/model/tree-object.js";
import { sha256 } from "../../../../shared/tensor/hash.js";
import { modelSourceOfSafetensors } from "../../../../shared/save/model-source.js";
import { fileOfBytes } from "../../../../shared/tensor/safetensors.js";
import { seededNumbers } from "../../../helpers/manual-clock.js";
import { vectorBytes, vectors } from "../../../unit/shared/model/vectors.js";

const full = process.env["STEMMA_TEST_FULL"] === "1";
const count = full ? 100_000 : 2_000;
const seed = Number(process.env["STEMMA_TEST_SEED"] ?? "20260101");
const growthLimit = 400 * 2 ** 20;

/** Fragments inserted into text that are difficult for decoders. */
const words = [
  "[",
  "]",
  "{",
  "}",
  ",",
  ":",
  '"',
  "\\",
  "null",
  "true",
  "-1",
  "-0",
  "0",
  "1.5",
  "1e999",
  "9007199254740992",
  "18446744073709551616",
  '"__proto__"',
  '"constructor"',
  "\\u0000",
  "\\ud800",
  "[[[[[[[[",
  '{"a":',
  "\u0000",
  '"U8"',
  '"F4"',
  "[0,0]",
  '"Lambda"',
  '"Sequential"',
  '"name":"a",',
];

function mutate(bytes: Uint8Array, random: () => number): Uint8Array {
  let result = Buffer.from(bytes);
  const below = (limit: number): number => Math.floor(random() * limit);
  for (let times = 1 + below(4); times > 0; times--) {
    const at = below(result.length + 1);
    switch (below(7)) {
      case 0:
        if (at < result.length) result[at] = below(256);
        break;
      case 1:
        if (at < result.length) result[at] = (result[at] as number) ^ (1 << below(8));
        break;
      case 2:
        result = result.subarray(0, at);
        break;
      case 3: {
        const end = at + below(40);
        result = Buffer.concat([result.subarray(0, at), result.subarray(end)]);
        break;
      }
      case 4: {
        const from = below(result.length + 1);
        result = Buffer.concat([
          result.subarray(0, at),
          result.subarray(from, from + below(60)),
          result.subarray(at),
        ]);
        break;
      }
      case 5: {
        const word = Buffer.from(words[below(words.length)] as string);
        result = Buffer.concat([
          result.subarray(0, at),
          word,
          result.subarray(at + (random() < 0.5 ? word.length : 0)),
        ]);
        break;
      }
      default:
        if (result.length >= 8) {
          const place = random() < 0.3 ? 0 : below(result.length - 7);
          result.writeBigUInt64LE(BigInt(below(2 ** 32)) << BigInt(below(32)), place);
        }
    }
  }
  return new Uint8Array(result);
}

const described = readModelJson(vectorBytes("two-branches.model.json"));
const leaves = described.names.leaves
  .map((path) => ({ path, dtype: "F32" as const, shape: [2, 3], tensor: sha256(path) }))
  .sort((a, b) => (a.path < b.path ? -1 : 1));
const utf8 = (text: string): Uint8Array => new TextEncoder().encode(text);

const targets: Readonly<
  Record<string, { readonly samples: readonly Uint8Array[]; readonly decode: (bytes: Uint8Array) => unknown }>
> = {
  safetensors: {
    samples: [vectorBytes("edge-values.safetensors"), vectorBytes("other-tool.safetensors")],
    decode: (bytes) => modelSourceOfSafetensors(fileOfBytes(bytes), "mutated"),
  },
  "model.json": {
    samples: [
      vectorBytes("two-branches.model.json"),
      utf8(JSON.stringify(JSON.parse(Buffer.from(vectorBytes("two-branches.model.json")).toString("utf8")))),
    ],
    decode: readModelJson,
  },
  "architecture object": {
    samples: [encodeArchitecture(described.architecture)],
    decode: decodeArchitecture,
  },
  tree: { samples: [encodeTree("opaque", leaves)], decode: decodeTree },
  "owner map": {
    samples: [encodeOwnerMap(ownerMapOf([sha256("a"), undefined, sha256("b"), sha256("b")]))],
    decode: (bytes) => decodeOwnerMap(bytes, 4),
  },
  names: {
    samples: [encodeNames({ ...described.names, fileOrder: [2, 0, 1], fileMetadata: { a: "b" } })],
    decode: (bytes) => decodeNames(bytes, 3),
  },
  "save record": {
    samples: ["save-records.json", "save-records-2.json"].flatMap((name) =>
      vectors<{ text: string }[]>(name).map(({ text }) => utf8(text)),
    ),
    decode: (bytes: Uint8Array) => {
      const record = decodeSaveRecord(bytes);
      // Bytes that it takes are read as quickly afterwards, with the same members in the same order.
      assert.equal(JSON.stringify(decodeCheckedRecord(bytes)), JSON.stringify(record));
      return record;
    },
  },
  environment: { samples: [encodeEnvironment({ backend: "wasm", node: "v20" })], decode: decodeEnvironment },
};

describe(`mutated bytes (seed ${seed}, ${count} of each)`, () => {
  for (const [name, { samples, decode }] of Object.entries(targets)) {
    test(name, async (context) => {
      for (const sample of samples) await decode(sample);
      const random = seededNumbers(seed);
      const before = process.memoryUsage().rss;
      let accepted = 0;
      for (let i = 0; i < count; i++) {
        const bytes = mutate(samples[i % samples.length] as Uint8Array, random);
        try {
          await decode(bytes);
          accepted++;
        } catch (error) {
          assert.ok(
            error instanceof StemmaError && error.code !== "INTERNAL",
            `mutation ${i} of seed ${seed} (${Buffer.from(bytes).toString("base64").slice(0, 2_000)}): ${String(error)}`,
          );
        }
      }
      const growth = process.memoryUsage().rss - before;
      assert.ok(growth < growthLimit, `memory grew by ${growth} bytes`);
      context.diagnostic(`${accepted} of ${count} accepted, seed ${seed}`);
    });
  }
});

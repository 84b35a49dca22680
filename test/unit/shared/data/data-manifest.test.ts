/** The object by which versions name their data: one form each, and nothing malformed is read. */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { resolve } from "node:path";
import { test } from "node:test";
import {
  dataPlaces,
  decodeDataManifest,
  encodeDataManifest,
  placeManifest,
} from "../../../../shared/data/data-manifest.js";
import { sha256 } from "../../../../shared/tensor/hash.js";
import { hasCode } from "../../../helpers/object-stores.js";

const vectors = resolve("test/vectors/data/manifests-1.json");
const content = sha256("content");
const chunks = [
  { id: sha256("a"), byteLength: 3 },
  { id: sha256("b"), byteLength: 4 },
];
const stored = { kept: "chunks", content, byteLength: 7, chunks } as const;

const coded = { ...stored, isCoded: true } as const;

test("stored data and data that are elsewhere are read as they were written", () => {
  for (const each of [stored, coded]) assert.deepEqual(decodeDataManifest(encodeDataManifest(each)), each);
  for (const kept of dataPlaces.filter((place) => place !== "chunks"))
    assert.deepEqual(decodeDataManifest(placeManifest(content, kept)), {
      kept,
      content,
      byteLength: 0,
      chunks: [],
    });
});

test("are the bytes of the golden vectors", () => {
  const golden = JSON.parse(readFileSync(vectors, "utf8")) as Record<string, string>;
  const bytes = {
    chunks: encodeDataManifest(stored),
    coded: encodeDataManifest(coded),
    device: placeManifest(content, "device"),
  };
  for (const [name, each] of Object.entries(bytes))
    assert.equal(Buffer.from(each).toString("hex"), golden[name], name);
});

test("every shorter and longer form, and every wrong member, is refused", () => {
  const bytes = encodeDataManifest(stored);
  const refused = (changed: Uint8Array): void => {
    assert.throws(() => decodeDataManifest(changed), hasCode("DATA_MANIFEST_INVALID"));
  };
  for (let length = 0; length < bytes.length; length++) refused(bytes.subarray(0, length));
  refused(new Uint8Array([...bytes, 0]));
  const changeAt = (at: number, value: number): Uint8Array =>
    bytes.map((byte, index) => (index === at ? value : byte));
  // Magic, format, place, a place that has no chunks, length, number of chunks, length of a chunk.
  for (const [at, value] of [
    [0, 0],
    [8, 2],
    [12, 9],
    [12, 1],
    [45, 8],
    [52, 255],
    [53, 3],
    [56, 255],
    [89, 0],
  ] as const)
    refused(changeAt(at, value));
  refused(encodeDataManifest({ ...stored, chunks: [...chunks, { id: sha256("c"), byteLength: 0 }] }));
});

/** Trees, owner maps, records, canonical JSON and architectures against golden vectors and hostile bytes. */
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { isStemmaError, type ErrorCode } from "../../../../shared/errors.js";
import {
  architectureHash,
  decodeArchitecture,
  encodeArchitecture,
} from "../../../../shared/model/architecture.js";
import { decodeCanonical, encodeCanonical } from "../../../../shared/model/canonical-json.js";
import { readModelJson } from "../../../../shared/model/model-json.js";
import type { SaveRecord } from "../../../../shared/model/model.js";
import { decodeNames, encodeNames } from "../../../../shared/model/names.js";
import { decodeOwnerMap, encodeOwnerMap, ownerMapOf, ownerOf } from "../../../../shared/model/owner-map.js";
import { decodeSaveRecord, encodeSaveRecord, versionIdOf } from "../../../../shared/model/save-record.js";
import {
  comparePaths,
  contentId,
  leafHash,
  treeRoot,
  type ModelKind,
} from "../../../../shared/model/tree.js";
import { decodeTree, encodeTree } from "../../../../shared/model/tree-object.js";
import { objectId, sha256 } from "../../../../shared/tensor/hash.js";
import type { DType } from "../../../../shared/tensor/dtype.js";
import type { Hash } from "../../../../shared/tensor/tensor.js";
import { hex, unhex, vectorBytes, vectors } from "./vectors.js";
import { sortLeaves } from "../../../helpers/sort-leaves.js";

const refusal =
  (code: ErrorCode) =>
  (error: unknown): boolean =>
    isStemmaError(error, code);
const bytesOf = (text: string): Uint8Array => new TextEncoder().encode(text);

interface TreeVector {
  what: string;
  kind: ModelKind;
  paths: string[];
  tensors: Hash[];
  dtype: DType;
  shape: number[];
  leafHashes: Hash[];
  root: Hash;
  architecture: Hash;
  contentId: Hash;
  treeObject: string | null;
  treeObjectId: Hash;
}

describe("tree", () => {
  for (const vector of vectors<TreeVector[]>("trees.json")) {
    test(vector.what, () => {
      const leaves = vector.paths.map((path, i) => ({
        path,
        tensor: vector.tensors[i] as Hash,
        dtype: vector.dtype,
        shape: vector.shape,
      }));
      assert.deepEqual(
        leaves.map(({ path, tensor }) => leafHash(path, tensor)),
        vector.leafHashes,
      );
      assert.deepEqual(sortLeaves(vector.kind, [...leaves].reverse()), leaves);
      assert.equal(treeRoot(leaves), vector.root);
      assert.equal(contentId(vector.architecture, vector.root), vector.contentId);
      const bytes = encodeTree(vector.kind, leaves);
      if (vector.treeObject !== null) assert.equal(hex(bytes), vector.treeObject);
      assert.equal(objectId("tree", bytes), vector.treeObjectId);
      assert.deepEqual(decodeTree(bytes), { kind: vector.kind, leaves });
    });
  }

  test("malformed trees are refused", () => {
    const leaf = (path: string): { path: string; tensor: Hash; dtype: DType; shape: number[] } => ({
      path,
      tensor: sha256(path),
      dtype: "F32",
      shape: [1],
    });
    const good = encodeTree("opaque", [leaf("a"), leaf("b")]);
    for (let length = 0; length < good.length; length++)
      assert.throws(
        () => decodeTree(good.subarray(0, length)),
        refusal("TREE_MALFORMED"),
        `cut at ${length}`,
      );
    assert.throws(() => decodeTree(Uint8Array.of(...good, 0)), refusal("TREE_MALFORMED"));
    const claim = (at: number, ...values: number[]): Uint8Array => {
      const bytes = good.slice();
      bytes.set(values, at);
      return bytes;
    };
    assert.throws(() => decodeTree(claim(0, 2)), refusal("TREE_MALFORMED"), "another format");
    assert.throws(() => decodeTree(claim(1, 2)), refusal("TREE_MALFORMED"), "another kind");
    assert.throws(() => decodeTree(claim(1, 1)), refusal("TREE_MALFORMED"), "names in a positional tree");
    assert.throws(
      () => decodeTree(claim(2, 0xff, 0xff, 0xff, 0xff)),
      refusal("TREE_MALFORMED"),
      "four billion leaves",
    );
    assert.throws(
      () => decodeTree(claim(6, 0xff, 0xff, 0xff, 0x7f)),
      refusal("TREE_MALFORMED"),
      "a path of two gigabytes",
    );
    assert.throws(() => decodeTree(claim(10, 0xff)), refusal("TREE_MALFORMED"), "a path that is not UTF-8");
    assert.throws(() => decodeTree(claim(10, 0x62)), refusal("TREE_MALFORMED"), "the same path twice");
    assert.throws(() => decodeTree(claim(11, 99)), refusal("DTYPE_UNKNOWN"));
    assert.throws(() => encodeTree("opaque", [leaf("b"), leaf("a")]), refusal("TREE_MALFORMED"));
    assert.throws(() => encodeTree("architecture", [leaf("00/1")]), refusal("TREE_MALFORMED"));
    assert.ok(comparePaths("architecture", "2/0", "10/0") < 0);
  });
});

describe("owner map", () => {
  for (const { what, owners, indices, bytes } of vectors<
    { what: string; owners: Hash[]; indices: number[]; bytes: string }[]
  >("owner-maps.json")) {
    test(what, () => {
      assert.equal(hex(encodeOwnerMap({ owners, indices })), bytes);
      assert.deepEqual(decodeOwnerMap(unhex(bytes), indices.length), { owners, indices });
      const own = sha256("this");
      assert.deepEqual(ownerMapOf(indices.map((index) => (index === 0 ? undefined : owners[index - 1]))), {
        owners,
        indices,
      });
      indices.forEach((index, leaf) => {
        assert.equal(ownerOf({ owners, indices }, leaf, own), index === 0 ? own : owners[index - 1]);
      });
    });
  }

  test("non-canonical maps, and lengths beyond the available bytes, are refused", () => {
    const owner = hex(unhex(sha256("one")));
    const refused: [string, string][] = [
      ["", "nothing"],
      ["02000103", "another format"],
      ["0100010300", "wrong leaf count"],
      ["010001020001", "two runs of one owner"],
      ["01000102000000", "an empty run"],
      ["0100010200ff", "a byte too many"],
      [`0101${owner}010200`, "an owner that owns nothing"],
      ["01ffffff7f", "an owner count without owners"],
      ["010001820000", "a number longer than it need be"],
      [`0101${owner}020101010001`, "too many leaves"],
      [`0102${owner}${owner}0201010102`, "an owner twice"],
      ["0100010201", "an owner that is not there"],
    ];
    for (const [bytes, why] of refused)
      assert.throws(() => decodeOwnerMap(unhex(bytes), 2), refusal("OWNER_MAP_INVALID"), why);
  });
});

describe("canonical JSON", () => {
  const golden = vectors<{ accepted: { text: string }[]; refused: { text: string; why: string }[] }>(
    "canonical-json.json",
  );
  for (const { text } of golden.accepted)
    test(`reads and writes ${text}`, () => {
      assert.equal(new TextDecoder().decode(encodeCanonical(decodeCanonical(bytesOf(text)))), text);
    });
  for (const { text, why } of golden.refused)
    test(`refuses ${why}: ${text}`, () => {
      assert.throws(() => decodeCanonical(bytesOf(text)), refusal("CANONICAL_JSON_INVALID"));
    });
  test("values keep their kind", () => {
    assert.deepEqual(
      decodeCanonical(
        encodeCanonical([-0, NaN, Infinity, 0.1, 2 ** 60, 2n ** 60n, { $x: 1, __proto__x: 2 }]),
      ),
      [-0, NaN, Infinity, 0.1, 2 ** 60, 2n ** 60n, { $x: 1, __proto__x: 2 }],
    );
    const parsed = decodeCanonical(bytesOf('{"__proto__":{"a":1}}')) as Record<string, unknown>;
    assert.equal(parsed["a"], undefined);
    assert.deepEqual(Object.keys(parsed), ["__proto__"]);
  });
  test("size and depth are bounded, bytes must be UTF-8", () => {
    assert.throws(() => decodeCanonical(bytesOf("[".repeat(100_000))), refusal("CANONICAL_JSON_INVALID"));
    assert.throws(
      () => decodeCanonical(bytesOf("[1,2,3]"), { maxBytes: 5 }),
      refusal("CANONICAL_JSON_INVALID"),
    );
    assert.throws(() => decodeCanonical(Uint8Array.of(0x22, 0xff, 0x22)), refusal("CANONICAL_JSON_INVALID"));
    assert.throws(() => encodeCanonical("\ud800"), refusal("CANONICAL_JSON_INVALID"));
    assert.throws(() => encodeCanonical(2n ** 64n), refusal("CANONICAL_JSON_INVALID"));
    assert.throws(() => encodeCanonical(new Date(0) as never), refusal("CANONICAL_JSON_INVALID"));
  });
});

describe("save record", () => {
  interface Golden {
    readonly text: string;
    readonly versionId: Hash;
    readonly record: SaveRecord;
  }
  /** With the content id and the kind in the bytes, as records were once written. */
  const golden = vectors<Golden[]>("save-records.json");
  const short = vectors<Golden[]>("short-save-records.json");
  const second = vectors<Golden[]>("save-records-2.json");
  for (const { text, versionId, record } of [...golden, ...short, ...second]) {
    test(`format ${record.format}, ${record.kind}, ${text.length} bytes: version id and fields`, () => {
      assert.equal(versionIdOf(bytesOf(text)), versionId);
      assert.deepEqual(decodeSaveRecord(bytesOf(text)), record);
    });
  }
  for (const { text, record } of [...short, ...second]) {
    const scheme = record.scheme === undefined ? "" : " through a float scheme";
    test(
      `format ${record.format}, ${record.kind}${scheme}, ${text.length} bytes: ` +
        "written without fields that follow from others",
      () => {
        assert.equal(new TextDecoder().decode(encodeSaveRecord(record)), text);
      },
    );
  }
  test("a content id or a kind that does not follow from the rest is refused", () => {
    const { text, record } = golden[0] as Golden;
    const other = Buffer.from(sha256("other"), "hex").toString("base64url");
    assert.throws(
      () => decodeSaveRecord(bytesOf(text.replace(/"contentId":"[^"]*"/, `"contentId":"${other}"`))),
      refusal("RECORD_INVALID"),
    );
    assert.throws(() => encodeSaveRecord({ ...record, kind: "opaque" }), refusal("RECORD_INVALID"));
    assert.throws(() => encodeSaveRecord({ ...record, scheme: "Float 16" }), refusal("RECORD_INVALID"));
  });
  test("every alteration of a field is refused or another record", () => {
    const { text, record } = golden[0] as (typeof golden)[number];
    const wrong: [string, string][] = [
      ['"format":1', '"format":2'],
      ['"sequence":12', '"sequence":0'],
      ['"sequence":12', '"sequence":12,"seqx":1'],
      ['"approach":"update"', '"approach":"delta"'],
      ['"kind":"architecture"', '"kind":"opaque"'],
      ['"name":"truck-0017-pack-soh"', '"name":""'],
      ['"name":"truck-0017-pack-soh"', '"name":"a:1"'],
      ['"device":"truck-0017"', '"device":"a/b"'],
      ['"fleet":"north"', '"fleet":".."'],
      ['"clockErrorMs":250', '"clockErrorMs":-1'],
      ['"savedAtMs":1763700000000', '"savedAtMs":"now"'],
      ['"bases":[', '"bases":[7,'],
      ["notes.txt", "../notes.txt"],
    ];
    for (const [from, to] of wrong) {
      assert.ok(text.includes(from));
      assert.throws(() => decodeSaveRecord(bytesOf(text.replace(from, to))), refusal("RECORD_INVALID"), to);
    }
    assert.throws(
      () => encodeSaveRecord({ ...record, contentId: sha256("other") }),
      refusal("RECORD_INVALID"),
    );
    assert.throws(() => decodeSaveRecord(new Uint8Array(64 * 1024 + 1)), refusal("RECORD_TOO_LARGE"));
    assert.throws(
      () => decodeSaveRecord(bytesOf(text.replace(/"root":"(.{42})./, '"root":"$1_'))),
      refusal("RECORD_INVALID"),
      "base64url with stray bits",
    );
  });
});

describe("architecture", () => {
  const golden = vectors<{
    canonical: string;
    hash: Hash;
    leafNames: string[];
    layerNames: string[];
    frozenLayers: number[];
  }>("two-branches.json");
  test("two branches: order, canonical form and hash", () => {
    const { architecture, names } = readModelJson(vectorBytes("two-branches.model.json"));
    assert.equal(new TextDecoder().decode(encodeArchitecture(architecture)), golden.canonical);
    assert.equal(architectureHash(architecture), golden.hash);
    assert.deepEqual(names, {
      leaves: golden.leafNames,
      layers: golden.layerNames,
      frozenLayers: golden.frozenLayers,
    });
    assert.deepEqual(decodeArchitecture(bytesOf(golden.canonical)), architecture);
  });
  test("an object that is not canonical, not allowed or incomplete is refused", () => {
    const wrong: [string, string, ErrorCode][] = [
      ['"format":1', '"format":2', "ARCHITECTURE_INVALID"],
      ['"className":"LeakyReLU"', '"className":"Lambda"', "LAYER_NOT_ALLOWED"],
      ['"shape":[3,2]', '"shape":[3,4]', "ARCHITECTURE_INVALID"],
      ['{"layer":3,"output":0}', '{"layer":4,"output":0}', "ARCHITECTURE_INVALID"],
      ['"axis":-1', '"axis":-1,"name":"x"', "ARCHITECTURE_INVALID"],
      [
        '{"layer":1,"output":0},{"layer":2,"output":0}',
        '{"layer":2,"output":0},{"layer":1,"output":0}',
        "ARCHITECTURE_INVALID",
      ],
      ['"outputs":[{"layer":4', '"outputs":[{"layer":3', "ARCHITECTURE_INVALID"],
      ['"trainable":true', '"trainable":false', "ARCHITECTURE_INVALID"],
      ['"shape":[3,2]', '"shape":[9007199254740991,2]', "SHAPE_INVALID"],
    ];
    for (const [from, to, code] of wrong) {
      assert.ok(golden.canonical.includes(from));
      assert.throws(() => decodeArchitecture(bytesOf(golden.canonical.replace(from, to))), refusal(code), to);
    }
  });
});

describe("names", () => {
  test("are decoded as they were encoded; other bytes are refused", () => {
    const names = {
      leaves: ["b", "a"],
      fileOrder: [1, 0],
      fileMetadata: { "10": "x", __proto__x: "y" },
      fileHeader: "{} ",
      layers: ["l"],
      frozenLayers: [0],
    };
    assert.deepEqual(decodeNames(encodeNames(names), 2), names);
    assert.throws(() => decodeNames(encodeNames(names), 3), refusal("NAMES_INVALID"));
    for (const wrong of [
      { fileOrder: [0, 0] },
      { fileOrder: [0, 2] },
      { fileMetadata: { a: 1 } },
      { other: 1 },
      { layers: [1] },
      { fileHeader: 1 },
      { frozenLayers: [-1] },
    ])
      assert.throws(() => encodeNames({ ...names, ...wrong } as never), refusal("NAMES_INVALID"));
  });
});

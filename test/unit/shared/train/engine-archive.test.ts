/** Engines as archives: one form, hostile archives, unpacking into a folder. */
import assert from "node:assert/strict";
import { mkdtemp, readdir, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test, type TestContext } from "node:test";
import fc from "fast-check";
import "../../../helpers/property-seed.js";
import { isStemmaError } from "../../../../shared/errors.js";
import { nodeFiles } from "../../../../shared/files/node-files.js";
import type { Hash } from "../../../../shared/tensor/tensor.js";
import {
  decodeEngineArchive,
  encodeEngineArchive,
  engineObjectId,
  type EngineFile,
} from "../../../../shared/train/engine-archive.js";
import { engineId } from "../../../../shared/train/engine-id.js";
import { unpackEngine } from "../../../../shared/train/unpack-engine.js";

const fileOf = (name: string, text: string): EngineFile => ({ name, bytes: new TextEncoder().encode(text) });
const files = [
  fileOf("kernels.wasm", "\0asm"),
  fileOf("engine.mjs", "0;"),
  fileOf("engine.json", '{ "format": 1, "job": 2 }'),
];
const archive = encodeEngineArchive(files);

/** An archive as nothing here writes it. */
function raw(
  entries: readonly (readonly [name: string, text: string])[],
  count = entries.length,
): Uint8Array {
  const u32 = (value: number): Buffer => {
    const bytes = Buffer.alloc(4);
    bytes.writeUInt32LE(value);
    return bytes;
  };
  return Buffer.concat([
    Buffer.from("STEMENGN"),
    u32(1),
    u32(count),
    ...entries.flatMap(([name, text]) => [
      u32(Buffer.byteLength(name)),
      Buffer.from(name),
      u32(Buffer.byteLength(text)),
      Buffer.from(text),
    ]),
  ]);
}
const json = ["engine.json", '{"job":2}'] as const;
const script = ["engine.mjs", "0;"] as const;

async function folderOf(context: TestContext): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), "stemma-engine-"));
  context.after(() => rm(folder, { recursive: true, force: true }));
  return folder;
}

test("an archive has one form, and its ids", () => {
  assert.deepEqual(encodeEngineArchive(files.toReversed()), archive);
  assert.equal(Buffer.from(archive.subarray(0, 16)).toString("hex"), "5354454d454e474e0100000003000000");
  assert.equal(engineObjectId(archive), "e1117e6eab072428a665cbdf2de2b81bb86c637b9cd23c0485716970ebedbb8a");
  const { engine, jobForm, files: read } = decodeEngineArchive(archive);
  assert.deepEqual([engine, jobForm], [engineId(files), 2]);
  assert.deepEqual(
    read.map(({ name }) => name),
    ["engine.json", "engine.mjs", "kernels.wasm"],
  );
});

test("a hostile archive is refused before a file is written", () => {
  const hostile: readonly (readonly [string, Uint8Array])[] = [
    ["nothing", new Uint8Array()],
    ["another format", Buffer.concat([archive.subarray(0, 8), Buffer.from([2]), archive.subarray(9)])],
    ["a path upwards", raw([["../engine.mjs", "x"], json, script])],
    ["an absolute path", raw([["/etc/passwd", "x"], json, script])],
    ["a folder", raw([["a/b", "x"], json, script])],
    ["a backslash", raw([["a\\b", "x"], json, script])],
    ["a dot", raw([[".", "x"], json, script])],
    ["a hidden file", raw([[".npmrc", "x"], json, script])],
    ["a long name", raw([["a".repeat(65), "x"], json, script])],
    ["other letters", raw([json, script, ["é", "x"]])],
    ["two files of a name", raw([json, json, script])],
    ["another order", raw([script, json])],
    ["no script", raw([json])],
    ["no manifest", raw([script])],
    ["a manifest without a form", raw([["engine.json", "{}"], script])],
    ["a manifest that is not JSON", raw([["engine.json", "{"], script])],
    ["more files than it has", raw([json, script], 3)],
    ["files without end", raw([json, script], 0xffff_ffff)],
    ["bytes at the end", Buffer.concat([archive, Buffer.from([0])])],
    [
      "a giant file",
      Buffer.concat([raw([json, script], 3), Buffer.from("\x01\0\0\0z\xff\xff\xff\xff", "latin1")]),
    ],
    ["cut short", archive.subarray(0, archive.length - 1)],
  ];
  for (const [what, bytes] of hostile)
    assert.throws(() => decodeEngineArchive(bytes), { code: "ENGINE_INVALID" }, what);
  fc.assert(
    fc.property(fc.nat({ max: archive.length - 1 }), fc.nat({ max: 255 }), (at, byte) => {
      const changed = new Uint8Array(archive);
      changed[at] = byte;
      try {
        // Either refused, or another engine with another id.
        assert.equal(decodeEngineArchive(changed).engine === engineId(files), changed[at] === archive[at]);
      } catch (error) {
        assert.ok(isStemmaError(error, "ENGINE_INVALID"), String(error));
      }
    }),
  );
});

test("an engine is unpacked into a new folder, file by file as its id says", async (context) => {
  const folder = await folderOf(context);
  const into = join(folder, "engine");
  await unpackEngine(nodeFiles(), archive, { folder: into, expected: engineId(files) });
  assert.deepEqual((await readdir(into)).sort(), ["engine.json", "engine.mjs", "kernels.wasm"]);
  await assert.rejects(unpackEngine(nodeFiles(), archive, { folder: into }), { code: "ENGINE_INVALID" });
  // The right name with other files.
  await assert.rejects(
    unpackEngine(nodeFiles(), archive, { folder: join(folder, "b"), expected: "ab".repeat(32) as Hash }),
    { code: "ENGINE_HASH_MISMATCH" },
  );
  assert.deepEqual(await readdir(folder), ["engine"]);
  // A link in the place of the folder leads nowhere.
  await writeFile(join(folder, "target"), "kept");
  await symlink(join(folder, "target"), join(folder, "link"));
  await assert.rejects(unpackEngine(nodeFiles(), archive, { folder: join(folder, "link") }), {
    code: "ENGINE_INVALID",
  });
});

test("a file that changes while it is unpacked is noticed", async (context) => {
  const folder = await folderOf(context);
  const disk = nodeFiles();
  await assert.rejects(
    unpackEngine(
      { ...disk, read: async (path) => Buffer.concat([await disk.read(path), Buffer.from(" ")]) },
      archive,
      { folder: join(folder, "engine") },
    ),
    { code: "ENGINE_HASH_MISMATCH" },
  );
});

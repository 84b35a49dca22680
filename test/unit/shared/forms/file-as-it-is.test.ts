/** Any file as a model: its bytes come back, and names that lead elsewhere are refused at every door. */
import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { mkdtemp, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, it, type TestContext } from "node:test";
import { isStemmaError, type ErrorCode } from "../../../../shared/errors.js";
import { openFileAsItIs } from "../../../../shared/forms/file-as-it-is.js";
import { openModelFile } from "../../../../shared/forms/model-file.js";
import { endingOf, keptFileOf, requireKeptFileName } from "../../../../shared/model/kept-file.js";
import { slotFilesOf } from "../../../../shared/layouts/slot-files.js";
import { modelSourceOfSafetensors } from "../../../../shared/save/model-source.js";
import type { RecoveredModel } from "../../../../shared/recover/recovery.js";
import { collectBytes } from "../../../helpers/agent-fixtures.js";

const hasCode = (code: ErrorCode) => (error: unknown) => isStemmaError(error, code);

async function folderOf(t: TestContext): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), "stemma-kept-"));
  t.after(() => rm(folder, { recursive: true, force: true }));
  return folder;
}

const content = Buffer.from(`\x1c\0\0\0TFL3${"weights".repeat(100)}`, "latin1");
const hostile = [
  ...[
    "../../x",
    "/etc/passwd",
    "a/b",
    "a\\b",
    "a\nb",
    "a\0b",
    "",
    ".",
    "..",
    ".hidden",
    "-rf",
    "a b",
    "é.tflite",
  ],
  ...["n".repeat(300), "model.safetensors", "MANIFEST.json", "names.json", "metrics.json", "attachments"],
];

describe("a file that is kept as it is", () => {
  it("is a model with its bytes, its name and its SHA-256, and is written again as that file", async (t) => {
    const path = join(await folderOf(t), "soh.tflite");
    await writeFile(path, content);
    const opened = await openFileAsItIs(path);
    t.after(() => opened.close());
    const model = await modelSourceOfSafetensors(opened.file, path);
    const sha256 = createHash("sha256").update(content).digest("hex");
    assert.deepEqual(keptFileOf(model), { name: "soh.tflite", byteLength: content.length, sha256 });
    const [slot, ...more] = slotFilesOf(model as unknown as RecoveredModel);
    assert.ok(slot !== undefined && more.length === 0);
    assert.equal(slot.name, "soh.tflite");
    assert.deepEqual(Buffer.from(await collectBytes(slot.chunks as AsyncIterable<Uint8Array>)), content);
    await opened.requireUnchanged();
  });

  it("has a name that every folder can have, where it is imported and where it is delivered", async (t) => {
    const folder = await folderOf(t);
    const path = join(folder, "soh.tflite");
    await writeFile(path, content);
    for (const name of hostile) {
      assert.throws(() => {
        requireKeptFileName(name);
      }, hasCode("NAME_INVALID"));
      await assert.rejects(openFileAsItIs(path, { name }), hasCode("NAME_INVALID"));
    }
    const opened = await openFileAsItIs(path);
    t.after(() => opened.close());
    const model = await modelSourceOfSafetensors(opened.file, path);
    const stated = model.names.fileMetadata ?? {};
    for (const fileMetadata of [
      ...hostile.map((name) => ({ ...stated, "stemma.file": name })),
      ...[{}, { "stemma.file": "a.tflite" }, { ...stated, "stemma.file.sha256": "x" }],
    ]) {
      const lying = { ...model, names: { ...model.names, fileMetadata } } as unknown as RecoveredModel;
      assert.throws(() => slotFilesOf(lying), hasCode("NAMES_INVALID"));
    }
    const fileMetadata = { ...stated, "stemma.file.sha256": "0".repeat(64) };
    const [other] = slotFilesOf({
      ...model,
      names: { ...model.names, fileMetadata },
    } as unknown as RecoveredModel);
    await assert.rejects(
      async () => collectBytes(other?.chunks as AsyncIterable<Uint8Array>),
      hasCode("ROOT_MISMATCH"),
    );
  });

  it("is a regular file with bytes", async (t) => {
    const folder = await folderOf(t);
    const path = join(folder, "soh.tflite");
    await writeFile(path, "");
    await assert.rejects(openFileAsItIs(path), hasCode("MODEL_FILE_MALFORMED"));
    await assert.rejects(openFileAsItIs(folder), hasCode("FILE_NOT_REGULAR"));
    await symlink(path, join(folder, "link.tflite"));
    await assert.rejects(
      openFileAsItIs(join(folder, "link.tflite"), { followLinks: false }),
      hasCode("FILE_NOT_REGULAR"),
    );
  });

  it("is named as the way where a file of another tool is refused, and nothing else is", async (t) => {
    const folder = await folderOf(t);
    const header = Buffer.from('{"a":');
    const torn = Buffer.concat([Buffer.from([5, 0, 0, 0, 0, 0, 0, 0]), header]);
    for (const [name, bytes, code] of [
      ["soh.tflite", content, "SAFETENSORS_MALFORMED"],
      ["soh.onnx", Buffer.from([8, 8, 18, 1, 65, 0, 0, 0, 0, 0]), "SAFETENSORS_MALFORMED"],
      ["soh.engine", Buffer.alloc(100, 7), "SAFETENSORS_MALFORMED"],
      ["short", Buffer.from("ab"), "SAFETENSORS_TRUNCATED"],
    ] as const) {
      await writeFile(join(folder, name), bytes);
      await assert.rejects(
        openModelFile(join(folder, name)),
        (error) => isStemmaError(error, code) && error.message.includes("--as file"),
      );
    }
    for (const name of ["torn.safetensors", "torn"]) {
      await writeFile(join(folder, name), torn);
      await (await openModelFile(join(folder, name))).close();
    }
  });

  it("has an ending that stays in its folder", () => {
    for (const [name, ending] of [
      ["a.TFLITE", ".tflite"],
      ["a", ""],
      ["a.b/c", ""],
      ["a./../b", ""],
      ["a.tar.gz", ".gz"],
    ] as const)
      assert.equal(endingOf(name), ending, name);
  });
});

/** A recovered file: complete and verified under its name, or absent; an existing file stays unless forced. */
import assert from "node:assert/strict";
import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { PassThrough } from "node:stream";
import { test, type TestContext } from "node:test";
import { refuseExisting, writeStreamDurably, writeStreamTo } from "../../../../server/cli/stream-file.js";
import type { RecoveryReport } from "../../../../server/interface/api/models/version-schemas.js";
import type { RecoveryStream } from "../../../../server/interface/api/server-operations.js";
import { StemmaError } from "../../../../shared/errors.js";

async function folderOf(context: TestContext): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), "stemma-stream-"));
  context.after(() => rm(folder, { recursive: true, force: true }));
  return folder;
}

const report = { name: "soh", version: 1 } as RecoveryReport;
function streamOf(
  text: string,
  { before, fails = false }: { readonly before?: () => Promise<void>; readonly fails?: boolean } = {},
): RecoveryStream {
  const error = new StemmaError("ROOT_MISMATCH", "another root");
  const proof: Promise<RecoveryReport> = fails ? Promise.reject(error) : Promise.resolve(report);
  proof.catch(() => undefined);
  return {
    byteLength: text.length,
    expected: report,
    report: proof,
    chunks: (async function* () {
      yield Buffer.from(text.slice(0, 2));
      await before?.();
      yield Buffer.from(text.slice(2));
    })(),
  };
}

test("an existing file is refused before and during the recovery, and replaced completely when the caller asks for it", async (context) => {
  const folder = await folderOf(context);
  const path = join(folder, "model.safetensors");
  await writeStreamDurably(streamOf("first"), path, { overwrite: false }, () => undefined);
  assert.equal(await readFile(path, "utf8"), "first");
  await assert.rejects(refuseExisting(path, false), { code: "FILE_EXISTS" });
  await refuseExisting(path, true);
  await refuseExisting(join(folder, "other"), false);
  await assert.rejects(
    writeStreamDurably(streamOf("second"), path, { overwrite: false }, () => undefined),
    { code: "FILE_EXISTS" },
  );
  assert.equal(await readFile(path, "utf8"), "first");
  await writeStreamDurably(streamOf("third"), path, { overwrite: true }, () => undefined);
  assert.equal(await readFile(path, "utf8"), "third");
  await mkdir(join(folder, "sub"));
  await assert.rejects(refuseExisting(join(folder, "sub"), true), { code: "USAGE" });
  assert.deepEqual(await readdir(folder), ["model.safetensors", "sub"], "no temporary file stays");
});

test("a file created under the name during the recovery is not replaced", async (context) => {
  const folder = await folderOf(context);
  const path = join(folder, "model.safetensors");
  await assert.rejects(
    writeStreamDurably(
      streamOf("recovered", { before: () => writeFile(path, "somebody's") }),
      path,
      { overwrite: false },
      () => undefined,
    ),
    { code: "FILE_EXISTS" },
  );
  assert.equal(await readFile(path, "utf8"), "somebody's");
  assert.deepEqual(await readdir(folder), ["model.safetensors"]);
});

test("a model that fails verification leaves the existing file, also with --force", async (context) => {
  const folder = await folderOf(context);
  const path = join(folder, "model.safetensors");
  await writeFile(path, "good");
  await assert.rejects(
    writeStreamDurably(streamOf("wrong", { fails: true }), path, { overwrite: true }, () => undefined),
    { code: "ROOT_MISMATCH" },
  );
  assert.equal(await readFile(path, "utf8"), "good");
  assert.deepEqual(await readdir(folder), ["model.safetensors"]);
});

test("a pipe gets all of a model that is verified, and never the end of one that is not", async () => {
  const pipe = new PassThrough();
  assert.equal(await writeStreamTo(streamOf("model"), pipe), report);
  assert.equal(String(pipe.read()), "model");
  await assert.rejects(writeStreamTo(streamOf("model", { fails: true }), pipe), { code: "ROOT_MISMATCH" });
  assert.equal(String(pipe.read()), "mo");
});

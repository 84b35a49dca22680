/** Libraries are checked before they run: architecture, functions, and who may change them. */
import assert from "node:assert/strict";
import { chmod, mkdir, mkdtemp, realpath, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test, type TestContext } from "node:test";
import { readSharedLibrary } from "../../../../agent/backend/elf.js";
import { linkBackend } from "../../../../agent/backend/link-backend.js";
import { checkLibrary, findLibrary, libraryNames, withLibrary } from "../../../../agent/backend/library.js";
import { neededSymbols } from "../../../../agent/backend/needed-symbols.js";
import { isStemmaError } from "../../../../shared/errors.js";
import { nodeFiles } from "../../../../shared/files/node-files.js";
import { fakeLibrary, type FakeLibrary } from "../../../helpers/fake-library.js";

const files = nodeFiles();
const owner = process.getuid?.();
const refused = (words: RegExp) => (error: unknown) =>
  isStemmaError(error, "BACKEND_UNAVAILABLE") && words.test(error.message);

async function temporaryFolder(t: TestContext): Promise<string> {
  const folder = await realpath(await mkdtemp(join(tmpdir(), "stemma-library-")));
  t.after(() => rm(folder, { recursive: true, force: true }));
  return folder;
}

/** A folder like a wheel's, whose first library defines what is named and whose second defines the rest. */
async function wheel(folder: string, first: Partial<FakeLibrary> = {}): Promise<string> {
  const tensorflow = join(folder, "tensorflow");
  await mkdir(tensorflow, { recursive: true });
  const [cc, framework] = libraryNames;
  await writeFile(
    join(tensorflow, cc),
    fakeLibrary({ symbols: neededSymbols.filter((name) => name.startsWith("TFE_")), ...first }),
  );
  await writeFile(
    join(tensorflow, framework),
    fakeLibrary({ symbols: neededSymbols.filter((name) => !name.startsWith("TFE_")) }),
  );
  return tensorflow;
}

test("the libraries of a wheel are found in its folder or in the one above, and pass", async (t) => {
  const folder = await temporaryFolder(t);
  const tensorflow = await wheel(folder);
  assert.equal(await findLibrary(files, folder), tensorflow);
  assert.equal(await findLibrary(files, tensorflow), tensorflow);
  await checkLibrary(files, tensorflow, { arch: "x64", owner });
  await assert.rejects(findLibrary(files, join(folder, "other")), refused(/Name the folder of an installed/));
});

test("another architecture, missing functions and a file that all may write are refused by name", async (t) => {
  const folder = await temporaryFolder(t);
  const tensorflow = await wheel(folder, { machine: 183 });
  await assert.rejects(checkLibrary(files, tensorflow, { arch: "x64", owner }), refused(/is for arm64/));
  const some = neededSymbols.filter((name) => name.startsWith("TFE_") && name !== "TFE_Execute");
  await wheel(folder, { symbols: some, wanted: ["TFE_Execute"] });
  await assert.rejects(
    checkLibrary(files, tensorflow, { arch: "x64", owner }),
    refused(/lacks 1 functions .* TFE_Execute\./),
  );
  await wheel(folder);
  await chmod(join(tensorflow, libraryNames[1]), 0o666);
  await assert.rejects(checkLibrary(files, tensorflow, { arch: "x64", owner }), refused(/written to by all/));
});

test("what is not a library, or is cut off anywhere, is refused and never read out of bounds", async (t) => {
  const folder = await temporaryFolder(t);
  const path = join(folder, "library.so");
  const whole = fakeLibrary({ symbols: ["TF_Version", "TF_NewGraph"], needed: ["libc.so.6"] });
  const open = async (bytes: Uint8Array): Promise<boolean> => {
    await writeFile(path, bytes);
    return await withLibrary(files, path, (library) => library.defines("TF_Version"));
  };
  const answerOf = (bytes: Uint8Array): Promise<unknown> =>
    open(bytes).catch((error: unknown) => {
      assert.ok(isStemmaError(error, "BACKEND_UNAVAILABLE"), String(error));
      return "refused";
    });
  assert.equal(await open(whole), true);
  // Without its last bytes only the end of a table is missing, which another symbol may need.
  const cut: unknown[] = [];
  for (let length = 0; length < whole.length; length += 7) cut.push(await answerOf(whole.slice(0, length)));
  assert.deepEqual(new Set(cut.slice(0, -2)), new Set(["refused"]));
  // Every byte, turned round: an answer or a typed error.
  for (let at = 0; at < whole.length; at++) {
    const damaged = whole.slice();
    damaged[at] = (damaged[at] as number) ^ 0xff;
    assert.ok([true, false, "refused"].includes((await answerOf(damaged)) as boolean), `byte ${at}`);
  }
  await assert.rejects(open(Buffer.from("#!/bin/sh\n".repeat(20))), refused(/not an ELF file/));
});

test("the libraries that one names are read", async (t) => {
  const folder = await temporaryFolder(t);
  const path = join(folder, "binding.node");
  await writeFile(path, fakeLibrary({ symbols: [], needed: ["libtensorflow.so.2", "libc.so.6"] }));
  const file = await files.open(path, "read");
  t.after(() => file.close());
  const library = await readSharedLibrary(file, path);
  assert.deepEqual(library.needed, ["libtensorflow.so.2", "libc.so.6"]);
  assert.equal(await library.defines("TF_Version"), false);
});

test("linking says what is missing, and leaves nothing behind", async (t) => {
  const home = await temporaryFolder(t);
  const folder = await temporaryFolder(t);
  const tensorflow = await wheel(folder);
  const ports = { files, home, memoryLimitMb: 1024, onStep: () => undefined };
  const link = (choices: { readonly binding?: string; readonly compiler?: string }): Promise<unknown> =>
    linkBackend(ports, {
      libtensorflow: folder,
      compiler: "c++",
      threads: 1,
      stemma: "test",
      nowMs: 0,
      ...choices,
    });
  if (process.arch !== "x64") return;
  await assert.rejects(link({}), refused(/no C headers .* --binding/));
  await mkdir(join(tensorflow, "include/tensorflow/c"), { recursive: true });
  await writeFile(join(tensorflow, "include/tensorflow/c/c_api.h"), "");
  await assert.rejects(link({ compiler: "no-such-compiler" }), refused(/no compiler "no-such-compiler"/));
  const binding = join(folder, "tfjs_binding.node");
  await writeFile(binding, fakeLibrary({ symbols: [], needed: ["libtensorflow.so.2.9.1"] }));
  await assert.rejects(link({ binding }), refused(/needs libtensorflow\.so\.2\.9\.1/));
  await writeFile(binding, fakeLibrary({ symbols: [], machine: 183 }));
  await assert.rejects(link({ binding }), refused(/is for arm64/));
  // A library that cannot be loaded ends in the probe's own process.
  await writeFile(binding, fakeLibrary({ symbols: [] }));
  await assert.rejects(link({ binding }), refused(/The library cannot be used here/));
  assert.deepEqual(await files.list(home), []);
});

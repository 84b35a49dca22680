// Makes shared/wire/generated/stemma-protocol.js and .d.ts from shared/wire/stemma.proto. Both are committed;
// a test makes them again and compares bytes. Static code: no schema is read or compiled at run time.
import { mkdtemp, readFile, rename, rm, writeFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const require = createRequire(import.meta.url);

const banner = "/* eslint-disable */\n// Generated from stemma.proto by `npm run proto`. Do not edit.\n";
const options = [
  "-t",
  "static-module",
  "-w",
  "esm",
  "--dependency",
  "protobufjs/minimal.js",
  "--force-number",
  "--no-convert",
  "--no-delimited",
  "--no-typeurl",
  "--no-verify",
  "--no-service",
];

/** Returns the text of both generated files. */
export async function generate() {
  const pbjs = promisify(require("protobufjs-cli/pbjs").main);
  const pbts = promisify(require("protobufjs-cli/pbts").main);
  const folder = await mkdtemp(join(tmpdir(), "stemma-proto-"));
  try {
    const source = join(root, "shared/wire/stemma.proto");
    const commented = join(folder, "commented.js"); // pbts reads the types from the comments
    const file = join(folder, "stemma-protocol.js");
    await pbjs([...options, "-o", commented, source]);
    await pbjs([...options, "--no-comments", "-o", file, source]);
    await pbts(["-o", join(folder, "stemma-protocol.d.ts"), commented]);
    const code = await readFile(file, "utf8");
    const types = await readFile(join(folder, "stemma-protocol.d.ts"), "utf8");
    return { code: banner + code, types: banner + types };
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

async function replace(path, text) {
  await writeFile(`${path}.tmp`, text);
  await rename(`${path}.tmp`, path);
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const { code, types } = await generate();
  await replace(join(root, "shared/wire/generated/stemma-protocol.js"), code);
  await replace(join(root, "shared/wire/generated/stemma-protocol.d.ts"), types);
  console.error(
    `proto: wrote shared/wire/generated/stemma-protocol.js (${code.length} bytes) and .d.ts (${types.length} bytes)`,
  );
}

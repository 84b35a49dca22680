// Compiles the kernels (AssemblyScript) of training and of the delta codec to committed .wasm files with the
// pinned compiler, and writes each file's SHA-256 next to it. `npm start` does not run this; tests do, into
// memory, and compare. `node launcher/kernels.mjs [FOLDER]` writes all of it below FOLDER instead.
import { createHash } from "node:crypto";
import { mkdir, readFile, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import asc from "assemblyscript/asc";

const root = dirname(dirname(fileURLToPath(import.meta.url)));

/** Where the sources of each module are (folder/assembly), and which files are made from them. */
export const modules = {
  train: {
    folder: "shared/train/kernels",
    wasm: "kernels.wasm",
    hashName: "kernelsHash",
    hashFile: "kernels-hash.ts",
  },
  delta: {
    folder: "shared/delta/kernels",
    wasm: "delta.wasm",
    hashName: "deltaHash",
    hashFile: "delta-hash.ts",
  },
};

/** No runtime, no data, the caller's memory; `abort` would import a function and is not needed. */
const compilerOptions = [
  "--enable",
  "simd",
  "--importMemory",
  "--runtime",
  "stub",
  "--use",
  "abort=",
  "-O3",
  "--noAssert",
  "--converge",
];

/** Compiles and returns the bytes; throws with the compiler's messages. */
export async function compileKernels(name = "train") {
  const { folder, wasm } = modules[name];
  let bytes;
  const { error, stderr } = await asc.main(["index.ts", "--outFile", wasm, ...compilerOptions], {
    readFile: async (file, base) => {
      try {
        return await readFile(join(root, folder, "assembly", base === "." ? file : join(base, file)), "utf8");
      } catch {
        return null;
      }
    },
    writeFile: (file, contents) => {
      if (file.endsWith(".wasm")) bytes = contents;
    },
    listFiles: () => [],
  });
  if (error || !bytes)
    throw new Error(
      `the kernels in ${folder} did not compile: ${error?.message ?? ""}\n${stderr.toString()}`,
    );
  return Buffer.from(bytes);
}

/** The TypeScript file that pins the hash. */
export function hashFile(bytes, name = "train") {
  const { wasm, hashName } = modules[name];
  const hash = createHash("sha256").update(bytes).digest("hex");
  return `/** Written by \`npm run kernels\`: SHA-256 of ${wasm}, checked before it is instantiated. */\nexport const ${hashName} = "${hash}";\n`;
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  for (const [name, { folder, wasm, hashFile: file }] of Object.entries(modules)) {
    const bytes = await compileKernels(name);
    const target = join(process.argv[2] ?? root, folder);
    await mkdir(target, { recursive: true });
    await writeFile(join(target, wasm), bytes);
    await writeFile(join(target, file), hashFile(bytes, name));
    console.error(`kernels: ${folder}/${wasm} ${bytes.length} bytes`);
  }
}

// Compiles the training kernels (AssemblyScript) to shared/train/kernels/kernels.wasm with the pinned
// compiler, and writes the file's SHA-256 beside it. The result is committed; `npm start` does not run
// this, a test does, into another folder, and compares.
import { createHash } from "node:crypto";
import { mkdir, readFile, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import asc from "assemblyscript/asc";

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const kernels = join(root, "shared/train/kernels");

/** No runtime, no data, the backend's memory; `abort` would import a function and is not needed. */
const compilerOptions = ["--enable", "simd", "--importMemory", "--runtime", "stub", "--use", "abort=", "-O3", "--noAssert", "--converge"];

/** Compiles and returns the bytes; throws with the compiler's messages. */
export async function compileKernels() {
  const sources = new Map();
  let bytes;
  const { error, stderr } = await asc.main(["index.ts", "--outFile", "kernels.wasm", ...compilerOptions], {
    readFile: async (name, base) => {
      try {
        const text = await readFile(join(kernels, "assembly", base === "." ? name : join(base, name)), "utf8");
        sources.set(name, text);
        return text;
      } catch { return null; }
    },
    writeFile: (name, contents) => { if (name.endsWith(".wasm")) bytes = contents; },
    listFiles: () => [],
  });
  if (error || !bytes) throw new Error(`the kernels did not compile: ${error?.message ?? ""}\n${stderr.toString()}`);
  return Buffer.from(bytes);
}

/** The TypeScript file that pins the hash. */
export function hashFile(bytes) {
  const hash = createHash("sha256").update(bytes).digest("hex");
  return `/** Written by \`npm run kernels\`: SHA-256 of kernels.wasm, checked before it is instantiated. */\nexport const kernelsHash = "${hash}";\n`;
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const bytes = await compileKernels();
  const folder = process.argv[2] ?? kernels;
  await mkdir(folder, { recursive: true });
  await writeFile(join(folder, "kernels.wasm"), bytes);
  await writeFile(join(folder, "kernels-hash.ts"), hashFile(bytes));
  console.error(`kernels: ${bytes.length} bytes`);
}

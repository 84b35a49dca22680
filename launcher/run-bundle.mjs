// Runs a bundle of dist/bundle, with the code that an earlier run of the same command compiled. Reading compiled
// code takes a tenth of the time of compiling. What cannot be read, belongs to another bundle or another Node, or
// is damaged, is compiled again and replaced.
import { createHash } from "node:crypto";
import { mkdirSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { pathToFileURL } from "node:url";
import { constants, Script } from "node:vm";

const hashBytes = 32;
const headerBytes = hashBytes + 4;

function hashOf(...parts) {
  const hash = createHash("sha256");
  for (const part of parts) hash.update(part);
  return hash.digest();
}

/**
 * Compiled code: H(bundle's hash ‖ the rest) ‖ number of packages that were loaded, u32 ‖ code. Undefined where it is
 * not there, damaged or another bundle's.
 */
function readCompiled(path, bundleHash) {
  let bytes;
  try {
    bytes = readFileSync(path);
  } catch {
    return undefined;
  }
  if (bytes.length <= headerBytes) return undefined;
  if (!hashOf(bundleHash, bytes.subarray(hashBytes)).equals(bytes.subarray(0, hashBytes))) return undefined;
  return { packages: bytes.readUInt32LE(hashBytes), code: bytes.subarray(headerBytes) };
}

/** Commands work without it, so a folder that cannot be written is not an error. */
function writeCompiled(path, bundleHash, { packages, code }) {
  const temporary = `${path}.${process.pid}.tmp`;
  const count = Buffer.alloc(headerBytes - hashBytes);
  count.writeUInt32LE(packages);
  try {
    mkdirSync(dirname(path), { recursive: true });
    writeFileSync(temporary, Buffer.concat([hashOf(bundleHash, count, code), count, code]));
    renameSync(temporary, path);
  } catch {}
}

/** `require` from the bundle, and the names of what it was asked for. */
function countingRequire(filename) {
  const own = createRequire(filename);
  const names = new Set();
  const require = Object.assign((name) => {
    names.add(name);
    return own(name);
  }, own);
  return { require, names };
}

/** The words of a command that determine what code it needs: "model-list"; "" without a command. */
function commandOf(name, args) {
  // The second word of an agent's command may be the name of a line.
  const words = args.slice(0, name === "agent" ? 1 : 2);
  const end = words.findIndex((word) => !/^[a-z]{1,16}$/.test(word));
  return (end === -1 ? words : words.slice(0, end)).join("-");
}

/**
 * Runs the program with the arguments of this process. A server and an agent run for months, so they run from single
 * files, of which an upgrade in their folder takes none away.
 * @param root the checkout
 * @param name "stemma" or "agent"
 */
export async function runProgram(root, name) {
  const long = name === "agent" ? ["run"] : ["server", "demo"];
  if (!long.includes(process.argv[2] ?? "")) runBundle(root, name);
  else
    await import(pathToFileURL(join(root, `dist/${name === "agent" ? "agent" : "server"}/cli/main.js`)).href);
}

/** Runs a short command from the bundle. */
export function runBundle(root, name) {
  const filename = join(root, "dist/bundle", `${name}.cjs`);
  // The bundle is ASCII: other characters are escaped.
  const source = readFileSync(filename, "latin1");
  const bundleHash = source.slice(-65, -1);
  const version = `${process.version}-${process.arch}`;
  const path = join(root, ".build/compiled", `${name}-${commandOf(name, process.argv.slice(2))}-${version}`);
  const compiled = readCompiled(path, bundleHash);
  const script = new Script(`(function (exports, require, module, __filename, __dirname) {${source}\n})`, {
    filename,
    cachedData: compiled?.code,
    importModuleDynamically: constants.USE_MAIN_CONTEXT_DEFAULT_LOADER,
  });
  const module = { exports: {} };
  const { require, names } = countingRequire(filename);
  script
    .runInThisContext()
    .call(module.exports, module.exports, require, module, filename, dirname(filename));
  process.once("exit", (code) => {
    // With a server a command runs other code than without: a run that loaded more packages has more code.
    const isComplete = script.cachedDataRejected === false && names.size <= (compiled?.packages ?? 0);
    // Only of a command that did its work: a misspelt one leaves no file.
    if (code !== 0 || isComplete) return;
    writeCompiled(path, bundleHash, { packages: names.size, code: script.createCachedData() });
  });
}

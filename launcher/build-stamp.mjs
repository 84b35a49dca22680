// Remembers what the last complete build and installation were made from, so that a command finds out within
// milliseconds that nothing changed. The stamp has the time and size of every source file and the time of
// every folder; a file that was added or removed changes its folder's time.
import { lstatSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";

const format = 1;
/** Folders that the build reads; the parts of them that it skips are in `skipped`. */
const sourceFolders = ["shared", "agent", "server", "firmware-profiles", "test", "launcher"];
const outputFolder = "dist";
const skipped = new Set(["node_modules"]);
const singleFiles = ["package.json", "package-lock.json", ".npmrc", "node_modules/.stemma-installed"];

const stampPath = (root) => join(root, ".build", "built.json");

/** Time and size of a file, or the time of a folder; undefined where there is nothing. */
function stateOf(path) {
  const status = lstatSync(path, { throwIfNoEntry: false });
  if (status === undefined) return undefined;
  return status.isDirectory() ? `${status.mtimeMs}` : `${status.mtimeMs}:${status.size}`;
}

function addBelow(root, name, { entries, withFiles }) {
  const state = stateOf(join(root, name));
  if (state === undefined) return;
  entries[name] = state;
  for (const entry of readdirSync(join(root, name), { withFileTypes: true })) {
    const path = `${name}/${entry.name}`;
    if (entry.isDirectory()) {
      if (!skipped.has(entry.name)) addBelow(root, path, { entries, withFiles });
    } else if (withFiles) entries[path] = stateOf(join(root, path));
  }
}

/**
 * The state of everything that a build reads. Taken before the build: what changes while it runs then differs
 * from the stamp, and the next command builds it.
 */
export function stateOfSources(root) {
  const entries = {};
  for (const folder of sourceFolders) addBelow(root, folder, { entries, withFiles: true });
  for (const file of singleFiles) {
    const state = stateOf(join(root, file));
    if (state !== undefined) entries[file] = state;
  }
  return entries;
}

/** Records a build that is complete: its sources as they were before it, and the folders it wrote. */
export function writeStamp(root, sources) {
  const entries = { ...sources };
  addBelow(root, outputFolder, { entries, withFiles: false });
  const { arch, platform } = process;
  const path = stampPath(root);
  mkdirSync(dirname(path), { recursive: true });
  const temporary = `${path}.${process.pid}.tmp`;
  writeFileSync(temporary, JSON.stringify({ format, arch, platform, entries }));
  renameSync(temporary, path);
}

export function removeStamp(root) {
  rmSync(stampPath(root), { force: true });
}

const ofTests = (name) => /^(dist\/)?test(\/|$)/.test(name);

/**
 * Whether everything is as the last complete build left it. A stamp that cannot be read says no.
 * @param withTests also look at the tests, which are half of the files and which no command runs but `bench`
 */
export function isBuilt(root, { withTests = true } = {}) {
  try {
    const stamp = JSON.parse(readFileSync(stampPath(root), "utf8"));
    if (stamp.format !== format || stamp.arch !== process.arch || stamp.platform !== process.platform)
      return false;
    const names = Object.keys(stamp.entries).filter((name) => withTests || !ofTests(name));
    return names.length > 0 && names.every((name) => stateOf(join(root, name)) === stamp.entries[name]);
  } catch {
    return false;
  }
}

// The first code that a single executable runs: unpacks its files once, and starts the program or one of its parts.
// It is Node's embedded main script, so it is CommonJS and loads nothing but Node's own modules. executable.mjs writes
// its asset, index.json (what the files are called, their sizes and hashes), and their bytes at the program's end.
"use strict";
const { createHash } = require("node:crypto");
const fs = require("node:fs");
const os = require("node:os");
const { dirname, join } = require("node:path");
const sea = require("node:sea");
const { pathToFileURL } = require("node:url");
const vm = require("node:vm");

// shared/adapters/own-program.ts has the same two names.
const partArgument = "--stemma-part";
const restoreUnpacked = Symbol.for("stemma.restore-unpacked");
/** A process that stays looks at its files so often, so that what cleans temporary folders sees them in use. */
const lookAgainMs = 6 * 3_600_000;
const longCommands = ["run", "server", "demo", "simulate", "console"];

const index = JSON.parse(sea.getAsset("index.json", "utf8"));
const words = process.argv.slice(2);

/** Loads a file by its URL. An embedded script has no import() of its own; that of a vm.Script warns that it is new. */
function importFile(url) {
  const { emitWarning } = process;
  process.emitWarning = () => {};
  try {
    return new vm.Script("(url) => import(url)", {
      filename: process.execPath,
      importModuleDynamically: vm.constants.USE_MAIN_CONTEXT_DEFAULT_LOADER,
    }).runInThisContext()(url);
  } finally {
    process.emitWarning = emitWarning;
  }
}

function fail(text) {
  process.stderr.write(`${index.name}: ${text}\n`);
  process.exit(1);
}

/** The account of a service may have no home, or one that does not exist; a small root has no list of accounts. */
function homeFolder() {
  try {
    return os.homedir();
  } catch {
    return undefined;
  }
}

/** Folders that may take the unpacked files, best first; one that a person names is the only one. */
function places() {
  const { STEMMA_UNPACKED: named, CACHE_DIRECTORY: ofService, XDG_CACHE_HOME: ofUser } = process.env;
  if (named) return [named];
  const found = ofService ? [ofService.split(":")[0]] : [];
  if (ofUser) found.push(join(ofUser, "stemma"));
  const home = homeFolder();
  if (home !== undefined && home !== "/" && fs.existsSync(home)) found.push(join(home, ".cache/stemma"));
  return [...found, join(os.tmpdir(), `stemma-${process.getuid()}`)];
}

/** Code is run from there, so nobody else may be able to write to it. */
function makeOwnFolder(path) {
  fs.mkdirSync(path, { recursive: true, mode: 0o700 });
  const { uid, mode } = fs.lstatSync(path).isDirectory() ? fs.statSync(path) : { uid: -1, mode: 0 };
  if (uid !== process.getuid() || (mode & 0o022) !== 0)
    throw new Error(`${path} is not a folder that belongs to this user alone`);
}

const isContent = (content, { bytes, sha256 }) =>
  content.length === bytes && createHash("sha256").update(content).digest("hex") === sha256;

const isIntact = (path, file) => {
  try {
    // No link: what it leads to could be changed by others.
    return fs.lstatSync(path).isFile() && isContent(fs.readFileSync(path), file);
  } catch {
    return false;
  }
};

class DamagedProgram extends Error {}

/** The program that runs, also where its file was replaced since. */
function openProgram() {
  try {
    return fs.openSync("/proc/self/exe");
  } catch {
    return fs.openSync(process.execPath);
  }
}

/** Reads files that the program carries, and passes each on. @throws DamagedProgram */
function readCarried(files, pass) {
  const program = openProgram();
  try {
    const first = fs.fstatSync(program).size - index.bytes;
    for (const file of files) {
      const content = Buffer.alloc(file.bytes);
      fs.readSync(program, content, 0, file.bytes, first + file.offset);
      if (!isContent(content, file))
        throw new DamagedProgram(`${process.execPath} is damaged, in its ${file.path}. Install it again.`);
      pass(file, content);
    }
  } finally {
    fs.closeSync(program);
  }
}

/** Writes the files that are missing or damaged. Each is replaced in one step, so others may read meanwhile. */
function restore(folder) {
  const missing = index.files.filter((file) => !isIntact(join(folder, file.path), file));
  if (missing.length === 0) return;
  readCarried(missing, (file, content) => {
    const path = join(folder, file.path);
    const temporary = `${path}.${process.pid}.tmp`;
    fs.mkdirSync(dirname(path), { recursive: true, mode: 0o755 });
    fs.rmSync(temporary, { force: true });
    fs.writeFileSync(temporary, content, { mode: 0o444 });
    // A folder at the file's place is not of this program.
    if (fs.lstatSync(path, { throwIfNoEntry: false })?.isDirectory()) fs.rmSync(path, { recursive: true });
    fs.renameSync(temporary, path);
  });
}

function unpack() {
  const reasons = [];
  for (const place of places())
    try {
      makeOwnFolder(place);
      const folder = join(place, index.id);
      makeOwnFolder(folder);
      restore(folder);
      return fs.realpathSync(folder);
    } catch (error) {
      if (error instanceof DamagedProgram) return fail(error.message);
      reasons.push(`${place}: ${error.message}`);
    }
  return fail(
    `its files (${(index.bytes / 1e6).toFixed(1)} MB) cannot be unpacked: ${reasons.join("; ")}. Give it a folder of this ` +
      "user with that much space, which may be in memory: STEMMA_UNPACKED=/run/stemma.",
  );
}

function runProgram() {
  const folder = unpack();
  globalThis[restoreUnpacked] = () => restore(folder);
  if (longCommands.includes(words[0]))
    setInterval(() => {
      try {
        restore(folder);
      } catch (error) {
        process.stderr.write(
          `${index.name}: the unpacked files in ${folder} cannot be checked: ${error.message}\n`,
        );
      }
    }, lookAgainMs).unref();
  // The agent's texts name its commands as they are typed here (shared/adapters/typed-command.ts).
  if (index.other === undefined) globalThis[Symbol.for("stemma.command")] = index.name;
  const isOther = index.other !== undefined && words[0] === index.other.word;
  const script = join(folder, isOther ? index.other.script : index.script);
  process.argv = [process.execPath, script, ...(isOther ? words.slice(1) : words)];
  return importFile(pathToFileURL(script).href);
}

function runPart([script, ...args]) {
  if (script === "-e") {
    process.argv = [process.execPath, ...args.slice(1)];
    return vm.runInThisContext(`(function (require) {${args[0]}\n})`)(require);
  }
  // A fleet's own code is never run without Node's permission model, which NODE_OPTIONS had to switch on.
  if (args[0] === "--recipe" && process.permission === undefined)
    return fail("NODE_OPTIONS did not reach this process, so it runs no code of a recipe.");
  process.argv = [process.execPath, script, ...args];
  return importFile(pathToFileURL(script).href);
}

/** Prints the licences of the program, of the libraries in it, and of Node. */
function printLicences() {
  const licences = index.files.filter(({ path }) => /^LICENSE/.test(path));
  readCarried(licences, (_, content) => process.stdout.write(`${content}\n`));
}

if (words.length === 1 && ["--licences", "--licenses"].includes(words[0])) printLicences();
else void (words[0] === partArgument ? runPart(words.slice(1)) : runProgram());

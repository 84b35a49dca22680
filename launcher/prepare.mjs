// The first step of every command in a checkout: checks Node's version, installs the packages of the lock
// file when it changed, and builds what is stale. Imports only Node's own modules, because a bare clone has
// nothing else.
import { spawn } from "node:child_process";
import { createHash } from "node:crypto";
import { rmSync } from "node:fs";
import { mkdir, readFile, rm, stat, writeFile } from "node:fs/promises";
import { constants } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { isBuilt, removeStamp, stateOfSources, writeStamp } from "./build-stamp.mjs";

export const root = dirname(dirname(fileURLToPath(import.meta.url)));
const minimum = [20, 19];

function checkNode() {
  const [major, minor] = process.versions.node.split(".").map(Number);
  if (major > minimum[0] || (major === minimum[0] && minor >= minimum[1])) return;
  console.error(
    `stemma needs Node ${minimum.join(".")} or newer; this is ${process.versions.node}. Install a newer Node and run the command again.`,
  );
  process.exit(1);
}

/** The package manager while it runs. */
let npm;

function runToEnd(command, args, options) {
  return new Promise((resolve, reject) => {
    const child = spawn(command, args, { cwd: root, stdio: ["ignore", "pipe", "pipe"], ...options });
    npm = child;
    let output = "";
    child.stdout?.on("data", (chunk) => {
      output += chunk;
    });
    child.stderr?.on("data", (chunk) => {
      output += chunk;
    });
    child.on("error", reject);
    child.on("close", (code) =>
      code === 0
        ? resolve(output)
        : reject(Object.assign(new Error(`${command} ${args.join(" ")} ended with ${code}`), { output })),
    );
  });
}

/**
 * Whether npm has installed all packages of the lock file, as after `npm ci` by hand. npm lists what it installed in
 * node_modules/.package-lock.json; optional packages are there where they suit this machine.
 */
async function hasInstalledAll() {
  const read = async (path) => JSON.parse(await readFile(join(root, path), "utf8")).packages;
  try {
    const [wanted, installed] = await Promise.all(
      ["package-lock.json", "node_modules/.package-lock.json"].map(read),
    );
    return Object.entries(wanted).every(
      ([path, { integrity, optional }]) =>
        integrity === undefined ||
        installed[path]?.integrity === integrity ||
        (optional === true && installed[path] === undefined),
    );
  } catch {
    return false;
  }
}

async function installWhenChanged() {
  const wanted = createHash("sha256")
    .update(await readFile(join(root, "package-lock.json")))
    .update(await readFile(join(root, ".npmrc")))
    .update(process.arch)
    .update(process.platform)
    .digest("hex");
  const stamp = join(root, "node_modules", ".stemma-installed");
  if ((await readFile(stamp, "utf8").catch(() => "")) === wanted) return 0;
  if (await hasInstalledAll()) {
    await writeFile(stamp, wanted);
    return 0;
  }
  const began = Date.now();
  console.error(
    "stemma: installing packages from the npm registry (about 550 MB on disk, once; dependencies' install scripts stay off) …",
  );
  const npmProgram = process.env.npm_execpath;
  const args = ["ci", "--include=dev", "--no-audit", "--no-fund"];
  try {
    if (npmProgram && /\.c?js$/.test(npmProgram)) await runToEnd(process.execPath, [npmProgram, ...args]);
    else await runToEnd(process.platform === "win32" ? "npm.cmd" : "npm", args);
  } catch (error) {
    console.error(error.output ?? "");
    console.error(
      `stemma: the installation failed: ${error.message}. Is the npm registry reachable? Run the same command again once it is.`,
    );
    process.exit(1);
  }
  await mkdir(dirname(stamp), { recursive: true });
  await writeFile(stamp, wanted);
  return Date.now() - began;
}

/** Lets one command at a time install and build; others wait for it. */
async function withLock(work) {
  const folder = join(root, ".build", "prepare.lock");
  const owner = join(folder, "pid");
  await mkdir(dirname(folder), { recursive: true });
  for (let isWaiting = false; ; isWaiting = true) {
    try {
      await mkdir(folder);
      await writeFile(owner, String(process.pid));
      break;
    } catch (error) {
      if (error.code !== "EEXIST") throw error;
    }
    const pid = Number(await readFile(owner, "utf8").catch(() => "0"));
    // Without a process id, the lock was made a moment ago, or its owner died right then: wait five seconds.
    const isAbandoned =
      pid === 0 ? isWaiting && (await millisecondsSinceChange(folder)) > 5000 : !isAlive(pid);
    if (isAbandoned) {
      await rm(folder, { recursive: true, force: true });
      continue;
    }
    if (!isWaiting)
      console.error(
        `stemma: another command${pid ? ` (process ${pid})` : ""} is installing or building here; waiting for it …`,
      );
    await new Promise((resolve) => {
      setTimeout(resolve, 200);
    });
  }
  const allowInterrupts = reportInterrupts(folder);
  try {
    return await work();
  } finally {
    allowInterrupts();
    await rm(folder, { recursive: true, force: true });
  }
}

/** Ends this command with one line on Ctrl-C while it installs or builds. Returns what ends that. */
function reportInterrupts(lockFolder) {
  const end = (signal) => {
    console.error(
      "stemma: interrupted while installing and building. Run the same command again; it does what is missing.",
    );
    // npm goes on after SIGINT for as long as the installation takes. What it leaves is removed by the next one.
    npm?.kill("SIGKILL");
    rmSync(lockFolder, { recursive: true, force: true });
    process.exit(128 + constants.signals[signal]);
  };
  const signals = ["SIGINT", "SIGTERM", "SIGHUP"];
  for (const signal of signals) process.once(signal, end);
  return () => {
    for (const signal of signals) process.off(signal, end);
  };
}

async function millisecondsSinceChange(path) {
  const now = Date.now();
  return now - (await stat(path).catch(() => ({ mtimeMs: now }))).mtimeMs;
}

function isAlive(pid) {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return error.code === "EPERM";
  }
}

/** Installs the packages if the lock file changed. Returns the milliseconds it took, 0 for nothing to do. */
export async function install() {
  checkNode();
  return withLock(installAndReport);
}

/** Installs and builds what is missing or stale. Returns the milliseconds each part took. */
export async function prepare(options = {}) {
  checkNode();
  if (isBuilt(root, options)) return { installMs: 0, buildMs: 0 };
  return withLock(() => installAndBuild(options));
}

async function installAndReport() {
  const installMs = await installWhenChanged();
  if (installMs > 0) console.error(`stemma: installed in ${(installMs / 1000).toFixed(1)} s`);
  return installMs;
}

async function installAndBuild({ quiet = false }) {
  const installMs = await installAndReport();
  const began = Date.now();
  const sources = stateOfSources(root);
  removeStamp(root);
  const { build } = await import("./build.mjs");
  const { written, failures } = await build({ quiet: true });
  const buildMs = Date.now() - began;
  if (failures.length > 0) {
    console.error(`stemma: ${failures.length} files did not build; the messages are above.`);
    process.exit(1);
  }
  writeStamp(root, sources);
  if (written > 0 && !quiet)
    console.error(`stemma: built ${written} files in ${(buildMs / 1000).toFixed(1)} s`);
  return { installMs, buildMs };
}

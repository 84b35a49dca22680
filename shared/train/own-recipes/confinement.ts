/**
 * Confines the process that runs a fleet's own recipes (docs/recipes-of-your-own.md). It gets namespaces of
 * its own for users, mounts, network, processes, IPC and host name; a file system that holds Node, its
 * libraries and the engine's script, all read-only; an empty environment; a user id without capabilities;
 * limits of processor time, memory and core files; and Node's permission model beside that. What a machine
 * can do is found out by trying it, once for a process.
 */
import { execFile } from "node:child_process";
import { realpath } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { isExecutable, ownPart, type ProcessStart } from "../../adapters/own-program.js";
import { StemmaError } from "../../errors.js";
import { builtInEngineFolder } from "../engine-folder.js";
import type { RecipeCommand } from "./recipe-process.js";

/**
 * `namespaces`: the operating system confines the process. `interpreter`: only the interpreter that the recipe runs in
 * and Node's permission model do.
 */
export type ConfinementKind = "namespaces" | "interpreter";

/** The confinement that the owner of a machine allows: `interpreter` is for machines that have no namespaces. */
export type RequiredConfinement = ConfinementKind;

/** The folder in the confined file system. */
const confinedFolder = "/stemma";
const cpuSeconds = 1800;
/** KiB that the process may write to: Node's heap, the interpreter's memory and what they need beside. */
const dataKiB = 2 * 1024 * 1024;
const tryTimeoutMs = 20_000;

/**
 * Arguments: Node, the engine's script, the libraries, "--", then Node's arguments. /sys is the one folder that every
 * Linux has and the process does not need. A script is copied, so that the original cannot be reached; everything else
 * is mounted read-only. The second user namespace takes the capabilities of the first away.
 */
const scriptFor = (seconds: number, assignments: string): string => `set -e
root=/sys
ulimit -c 0
ulimit -t ${seconds}
ulimit -d ${dataKiB}
mount -t tmpfs -o size=64m,mode=755,nosuid,nodev tmpfs $root
mkdir $root${confinedFolder}
cp "$2" $root${confinedFolder}/engine.mjs
place() { mkdir -p "$root\${2%/*}"; : > "$root$2"; mount --bind "$1" "$root$2"; mount -o remount,bind,ro "$root$2"; }
place "$1" ${confinedFolder}/node
shift 2
while [ "$1" != -- ]; do place "$1" "$1"; shift; done
shift
mount -o remount,ro $root
exec env -i ${assignments} unshare --user --map-user=65534 --map-group=65534 --root=$root --wd=/ -- ${confinedFolder}/node "$@"`;

const unshareOptions = [
  "--user",
  "--map-root-user",
  "--mount",
  "--net",
  "--ipc",
  "--uts",
  "--pid",
  "--fork",
  "--kill-child",
];
const searchedFolders = ["/usr/bin", "/bin", "/usr/sbin", "/sbin"];

/** Node's own limits: no code from text, less memory, and its permission model, which is not a sandbox alone. */
function nodeOptions(folder: string): readonly string[] {
  const isNamed = process.allowedNodeEnvironmentFlags.has("--permission");
  return [
    "--disallow-code-generation-from-strings",
    "--max-old-space-size=1024",
    "--no-warnings",
    isNamed ? "--permission" : "--experimental-permission",
    `--allow-fs-read=${folder}/`,
  ];
}

/** The shared libraries that Node has loaded, which the confined one needs too. */
function librariesOfNode(): readonly string[] {
  const { report } = process;
  // Not in the types of Node 20.
  (report as { excludeNetwork?: boolean }).excludeNetwork = true;
  const { sharedObjects = [] } = report.getReport() as { sharedObjects?: readonly string[] };
  return sharedObjects.filter((path) => path.startsWith("/") && !path.endsWith(".node"));
}

/**
 * The command that runs a part of this program confined.
 * @param part its script as it is called in the confined file system, and Node's options
 */
async function confined(
  engineFolder: string,
  part: {
    readonly script: string;
    readonly args: readonly string[];
    readonly nodeOptions: readonly string[];
  },
  seconds = cpuSeconds,
): Promise<RecipeCommand> {
  const unshare = await findProgram("unshare");
  const path = `PATH=${searchedFolders.join(":")}`;
  const { args, environment } = ownPart(part);
  const assignments = Object.entries(environment).map(([name, value]) => `'${name}=${value}'`);
  return [
    "/usr/bin/env",
    "-i",
    path,
    unshare,
    ...unshareOptions,
    "--",
    "/bin/sh",
    "-c",
    scriptFor(seconds, assignments.join(" ")),
    "sh",
    await realpath(process.execPath),
    join(engineFolder, "engine.mjs"),
    ...librariesOfNode(),
    "--",
    ...args,
  ];
}

async function findProgram(name: string): Promise<string> {
  for (const folder of searchedFolders) {
    const found = await realpath(join(folder, name)).catch(() => undefined);
    if (found !== undefined) return found;
  }
  throw new Error(`${name} is not installed (util-linux has it)`);
}

/**
 * The program that finds what the confined process can reach without Node's permission model: everything but
 * these must be out of reach.
 */
const lookAround = (
  variables: readonly string[],
): string => `const fs = require("fs"), net = require("net"), os = require("os");
const reads = (path) => { try { return fs.readdirSync(path).length > 0; } catch { try { fs.readFileSync(path); return true; } catch { return false; } } };
const writes = (path) => { try { fs.writeFileSync(path, "x"); return true; } catch { return false; } };
const found = [];
for (const path of ["/etc", "/proc", "/home", "/root", "/tmp", "/var", "/usr/bin", "/dev", "/sys"]) if (reads(path)) found.push("reads " + path);
for (const path of ["/x", "${confinedFolder}/x", "${confinedFolder}/node", "${confinedFolder}/engine.mjs"]) if (writes(path)) found.push("writes " + path);
if (Object.keys(process.env).some((name) => !${JSON.stringify(variables)}.includes(name))) found.push("environment");
if (Object.values(os.networkInterfaces()).flat().length > 0) found.push("network interfaces");
if (process.getuid() === 0) found.push("root");
const limits = process.report.getReport().userLimits;
const data = limits.data_seg_size_bytes ?? limits.data_seg_size_kbytes;
if (!(data.hard <= ${dataKiB} * 1024)) found.push("memory without a limit");
if (!(limits.cpu_time_seconds.hard <= ${cpuSeconds})) found.push("processor time without a limit");
try { process.kill(process.ppid || 2, 0); if (process.ppid > 0) found.push("other processes"); } catch {}
net.connect(9, "127.0.0.1").on("error", (error) => {
  if (error.code !== "ENETUNREACH") found.push("network " + error.code);
  console.log(JSON.stringify(found));
});`;

/**
 * The command that runs a script confined, as the engine is for a recipe, but without Node's permission model.
 * @param seconds of processor time that it may take
 */
export async function confinedScript(text: string, seconds = cpuSeconds): Promise<RecipeCommand> {
  const free = nodeOptions(confinedFolder).filter((each) => !/permission$|^--allow-fs-read/.test(each));
  return await confined(builtInEngineFolder(), { script: "-e", args: [text], nodeOptions: free }, seconds);
}

/** The result of the first try; undefined: namespaces confine. Else why they do not. */
let tried: Promise<string | undefined> | undefined;

/** Returns why this machine cannot confine with namespaces; undefined where it can. Tried once for a process. */
export function whyUnconfined(): Promise<string | undefined> {
  tried ??= tryNamespaces();
  return tried;
}

async function tryNamespaces(): Promise<string | undefined> {
  if (process.platform !== "linux") return `namespaces are of Linux, and this is ${process.platform}`;
  try {
    const [program, ...parameters] = await confinedScript(
      // Node's options reach a single executable in a variable only.
      lookAround(isExecutable() ? ["PWD", "NODE_OPTIONS"] : ["PWD"]),
    );
    const { stdout } = await promisify(execFile)(program, parameters, {
      env: {},
      cwd: "/",
      timeout: tryTimeoutMs,
    });
    const found = JSON.parse(stdout) as readonly string[];
    return found.length === 0 ? undefined : `a confined process still has: ${found.join(", ")}`;
  } catch (error) {
    const { stderr, message } = error as { stderr?: string; message?: string };
    const text = stderr === undefined || stderr.trim() === "" ? String(message) : stderr.trim();
    return text.split("\n")[0]?.slice(0, 300) ?? "unknown";
  }
}

/**
 * The command that starts the process of own recipes, as well confined as this machine can.
 * @param required what the owner of this machine demands at least
 * @throws CONFINEMENT_FAILED
 */
export async function recipeCommand(
  required: RequiredConfinement,
  engineFolder: string = builtInEngineFolder(),
): Promise<RecipeCommand> {
  const why = await whyUnconfined();
  const args = ["--recipe"];
  if (why === undefined)
    return await confined(engineFolder, {
      script: `${confinedFolder}/engine.mjs`,
      args,
      nodeOptions: nodeOptions(confinedFolder),
    });
  if (required === "interpreter")
    return interpreterAlone(
      ownPart({ script: join(engineFolder, "engine.mjs"), args, nodeOptions: nodeOptions(engineFolder) }),
    );
  throw new StemmaError(
    "CONFINEMENT_FAILED",
    `This machine cannot confine the code of a fleet's own recipe, so none is run: ${why}. Let it use unprivileged ` +
      "user namespaces (`stemma doctor` shows what is missing), or accept the interpreter alone with " +
      'recipes.confinement "interpreter" in server.json, or in agent.json on a device.',
    { why },
  );
}

/** The command of a part that the interpreter and Node's permission model alone confine. */
const interpreterAlone = ({ program, args, environment }: ProcessStart): RecipeCommand =>
  isExecutable()
    ? [
        "/usr/bin/env",
        "-i",
        ...Object.entries(environment).map(([name, value]) => `${name}=${value}`),
        program,
        ...args,
      ]
    : [program, ...args];

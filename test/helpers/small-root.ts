/**
 * A root folder that has a program's shared libraries and nothing else, and the way to run a program in it: neither
 * Node nor a shell, no list of accounts, an empty environment.
 */
import { execFile, spawn, type ChildProcessWithoutNullStreams } from "node:child_process";
import { cp, mkdir } from "node:fs/promises";
import { dirname, join } from "node:path";
import { promisify } from "node:util";

const run = promisify(execFile);
const within = `mount --rbind /proc "$0/proc" && mount --rbind /dev "$0/dev" && exec chroot "$0" "$@"`;

/** Why no process can be given a root of its own here; undefined where one can. */
export async function whyNoRoot(): Promise<string | undefined> {
  try {
    await run("unshare", [
      "--user",
      "--map-root-user",
      "--mount",
      "--",
      "mount",
      "--rbind",
      "/proc",
      "/proc",
    ]);
    return undefined;
  } catch (error) {
    return (error as Error).message.split("\n").slice(0, 2).join(" ");
  }
}

export class SmallRoot {
  constructor(readonly folder: string) {}

  /** Makes the folders, and copies the libraries that the program is linked with. */
  async prepare(program: string): Promise<void> {
    for (const name of ["proc", "dev", "tmp", "srv", "bin"])
      await mkdir(join(this.folder, name), { recursive: true });
    const { stdout } = await run("ldd", [program]);
    for (const [, path] of stdout.matchAll(/(\/\S+) \(0x/g)) {
      await mkdir(dirname(join(this.folder, path ?? "")), { recursive: true });
      await cp(path ?? "", join(this.folder, path ?? ""), { dereference: true });
    }
  }

  /** Puts a program there, in the place of an earlier one, which goes on running. */
  async install(program: string, name: string): Promise<void> {
    const path = join(this.folder, "bin", name);
    await run("sh", ["-c", 'cp "$0" "$1.new" && mv "$1.new" "$1"', program, path]);
  }

  #words(name: string, args: readonly string[]): readonly string[] {
    const namespaces = ["--user", "--map-root-user", "--mount"];
    return [...namespaces, "--", "sh", "-c", within, this.folder, `/bin/${name}`, ...args];
  }

  /** Runs a command to its end. */
  async run(
    name: string,
    ...args: readonly string[]
  ): Promise<{ status: number; stdout: string; stderr: string }> {
    return await new Promise((resolve) => {
      const options = { env: { PATH: process.env["PATH"] }, maxBuffer: 64 * 1024 * 1024 };
      execFile("unshare", this.#words(name, args), options, (error, stdout, stderr) => {
        resolve({ status: error === null ? 0 : Number(error.code ?? -1), stdout, stderr });
      });
    });
  }

  /** Starts a command that stays. Its process is the program itself in the end, so that a signal reaches it. */
  start(name: string, ...args: readonly string[]): ChildProcessWithoutNullStreams {
    return spawn("unshare", this.#words(name, args), { env: { PATH: process.env["PATH"] } });
  }
}

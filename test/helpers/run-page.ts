/**
 * Runs the commands of a page in order, in a folder of its own: pasted commands work and print what the page shows.
 * Code blocks that take part:
 *
 *     sh run              runs; must end with status 0
 *     sh run background   starts and stays until the page's end; the next block waits for its first output
 *     json file:PATH      becomes that file
 *     text output         lines that the run before it prints on stdout, in this order; the page may leave
 *                         some out, and ids, numbers and paths may differ
 */
import assert from "node:assert/strict";
import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { mkdir, mkdtemp, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import type { TestContext } from "node:test";
import { codeBlocksOf, readPage, repositoryRoot } from "./markdown.js";

/** Programs that stand for `./stemma` and `./stemma agent` on a page, as words for a shell. */
export interface PagePrograms {
  readonly stemma: string;
  readonly agent: string;
}

/** The address at which a page's server listens for people; the file is written once it does. */
const addressFile = "http-address.txt";

/** A server of a page uses free ports; where the page names its usual one, the address that it has is meant. */
const scriptFor = ({ stemma, agent }: PagePrograms, folder: string): string => `#!/bin/sh
if [ "$1" = agent ]; then shift; exec ${agent} "$@"; fi
if [ -f "${folder}/${addressFile}" ]; then
  for each; do
    shift
    if [ "$each" = https://127.0.0.1:8083 ]; then each=$(cat "${folder}/${addressFile}"); fi
    set -- "$@" "$each"
  done
fi
if [ "$1" = server ]; then set -- "$@" --mqtt-port 0 --http-port 0; fi
exec ${stemma} "$@"
`;

/** Replaces what may differ between two runs by constants: ids, users, numbers, times, paths, column widths. */
function comparable(output: string): string {
  return (
    output
      .trim()
      .replace(/\.?\/(?:\S*\/)?(?=\S)/g, "/")
      .replace(/\b[0-9a-f]{8,64}\b/g, "ID")
      .replace(/\S+@\S+ \((command|socket)\)/g, "USER ($1)")
      .replace(/\d+([.:-]\d+)*/g, "0")
      .replace(/\b0 (ms|min)\b/g, "0 s")
      // The agent's own package names its commands as they are typed there.
      .replace(/\bstemma-agent\b/g, "stemma agent")
      .replace(/ +/g, " ")
      .replace(/ +$/gm, "")
  );
}

export class PageRun {
  #background: { readonly child: ChildProcess; readonly isReady: Promise<unknown> }[] = [];
  #output = "";
  constructor(readonly folder: string) {}

  async prepare(programs: PagePrograms): Promise<void> {
    await writeFile(join(this.folder, "stemma"), scriptFor(programs, this.folder), { mode: 0o755 });
    await symlink(join(repositoryRoot, "examples"), join(this.folder, "examples"));
  }

  #spawn(text: string): ChildProcess {
    return spawn("sh", ["-e", "-c", text], {
      cwd: this.folder,
      env: {
        ...process.env,
        STEMMA_HOME: join(this.folder, "home"),
        STEMMA_FLEET: "local",
        XDG_CONFIG_HOME: join(this.folder, "config"),
      },
      stdio: ["ignore", "pipe", "pipe"],
    });
  }

  /** @returns what it printed on stdout */
  async run(text: string): Promise<string> {
    await Promise.all(this.#background.map(({ isReady }) => isReady));
    const child = this.#spawn(text);
    const errors: Buffer[] = [];
    this.#output = "";
    child.stdout?.on("data", (data: Buffer) => (this.#output += data.toString("utf8")));
    child.stderr?.on("data", (data: Buffer) => errors.push(data));
    const [status] = (await once(child, "close")) as [number | null];
    assert.equal(status, 0, `${text}${this.#output}${Buffer.concat(errors).toString("utf8")}`);
    return this.#output;
  }

  start(text: string): void {
    const child = this.#spawn(`exec ${text}`);
    const printed = Promise.race([
      ...[child.stdout, child.stderr].map((stream) => stream && once(stream, "data")),
      once(child, "close").then(() => assert.fail(`ended at once: ${text}`)),
    ]);
    const isReady = printed.then(async (data) => {
      const [, address] = /httpUrl=(https:\S+)/.exec(String(data)) ?? [];
      if (address !== undefined) await writeFile(join(this.folder, addressFile), address);
    });
    child.stderr?.resume();
    child.stdout?.resume();
    this.#background.push({ child, isReady });
  }

  compare(expected: string): void {
    const printed = comparable(this.#output).split("\n");
    let next = 0;
    for (const line of comparable(expected).split("\n")) {
      const found = printed.indexOf(line, next);
      assert.notEqual(found, -1, `"${line}" is not printed:\n${printed.slice(next).join("\n")}`);
      next = found + 1;
    }
  }

  async write(path: string, text: string): Promise<void> {
    await mkdir(dirname(join(this.folder, path)), { recursive: true });
    await writeFile(join(this.folder, path), text);
  }

  async close(): Promise<void> {
    for (const { child } of this.#background.reverse()) {
      if (child.exitCode !== null || child.signalCode !== null) continue;
      const closed = once(child, "close");
      child.kill("SIGTERM");
      await closed;
    }
  }
}

/** Runs a page, whose background programs stay until the test ends. Fails where a page has no commands. */
export async function runPage(page: string, t: TestContext, programs: PagePrograms): Promise<PageRun> {
  const folder = await mkdtemp(join(tmpdir(), "stemma-docs-"));
  const run = new PageRun(folder);
  t.after(async () => {
    await run.close();
    await rm(folder, { recursive: true, force: true });
  });
  await run.prepare(programs);
  let runs = 0;
  for (const { info, text } of codeBlocksOf(readPage(page))) {
    if (info === "sh run") {
      await run.run(text);
      runs++;
    } else if (info === "sh run background") run.start(text);
    else if (info === "text output") run.compare(text);
    else if (info.startsWith("json file:")) await run.write(info.slice("json file:".length), text);
    else assert.ok(!/ (run|output|file:)/.test(` ${info}`), `${page}: a block "${info}" is not known`);
  }
  assert.ok(runs > 0, `${page} has no commands`);
  return run;
}

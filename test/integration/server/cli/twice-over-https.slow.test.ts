/**
 * What ships is what runs: commands of the bundle, each twice, so that the second run has the code that the first one
 * compiled, against a server over HTTPS.
 */
import assert from "node:assert/strict";
import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { after, before, describe, it } from "node:test";
import { fileURLToPath } from "node:url";
import { parse } from "acorn";
import { repositoryRoot } from "../../../helpers/markdown.js";
import { runStemmaProcess } from "../../../helpers/run-stemma.js";

const program = fileURLToPath(new URL("../../../helpers/bundled-program.mjs", import.meta.url));
const fleet = "cars";

/** Commands that read, one of each group and of each module that loads something of its own. */
const commands: readonly string[] = [
  "model list",
  "model show m:2",
  "model diff m:1 m:2",
  "model log m",
  "model verify m:1",
  "model owners m:2",
  "model descendants m:1",
  "model nearest soh:1",
  "model story soh:1",
  "model evals soh:1",
  "model pipeline soh:1",
  "replay run soh:1",
  "model recover m:2",
  "device list",
  "fleet status",
  "rollout status",
  "rollout plan spring m:1 --line l --on all",
  "data list",
  "recipe list",
  "replay list",
  "replay engine list",
  "journal list",
  "journal head",
  "storage stats",
  "storage check",
  "storage gc --dry-run",
  "storage tier list",
  "token list",
  "authority list",
  "webhook list",
];

/** Every import() of a program's syntax tree. */
function importsIn(node: unknown): readonly string[] {
  if (typeof node !== "object" || node === null) return [];
  const { type, start } = node as { readonly type?: unknown; readonly start?: number };
  const own = type === "ImportExpression" ? [`at ${start ?? 0}`] : [];
  return [...own, ...Object.values(node).flatMap((child: unknown) => importsIn(child))];
}

describe("a bundle", () => {
  for (const name of ["stemma", "agent"])
    it(`${name} loads nothing by import(), which code that was compiled earlier cannot do on Node 20`, async () => {
      const code = await readFile(join(repositoryRoot, `dist/bundle/${name}.cjs`), "utf8");
      assert.deepEqual(importsIn(parse(code, { ecmaVersion: "latest", sourceType: "script" })), []);
    });
});

describe("a command over HTTPS", () => {
  let folder = "";
  let server: ChildProcess | undefined;
  let environment: Readonly<Record<string, string>> = {};
  before(async () => {
    folder = await mkdtemp(join(tmpdir(), "stemma-https-"));
    const home = join(folder, "home");
    server = spawn(
      process.execPath,
      [program, "stemma", "server", "--home", home, "--fleet", fleet, "--mqtt-port", "0", "--http-port", "0"],
      { stdio: ["ignore", "pipe", "pipe"] },
    );
    const lines = createInterface({ input: server.stdout as NonNullable<ChildProcess["stdout"]> });
    server.stderr?.resume();
    const [line] = (await once(lines, "line")) as [string];
    const url = /https:\/\/[^\s,]+/.exec(line)?.[0] ?? "";
    assert.notEqual(url, "", line);
    environment = {
      STEMMA_SERVER: url,
      STEMMA_TOKEN: (await readFile(join(home, "http-token"), "utf8")).trim(),
      STEMMA_CA: join(home, "authority.pem"),
      STEMMA_FLEET: fleet,
    };
    const run = async (...words: readonly string[]): Promise<void> => {
      const { status, stderr } = await runStemmaProcess(words, environment);
      assert.equal(status, 0, `${words.join(" ")}: ${stderr}`);
    };
    const file = (name: string): string => join(folder, name);
    for (const args of [["first.safetensors"], ["second.safetensors", "first.safetensors"]]) {
      const made = spawn(process.execPath, [join(repositoryRoot, "examples/my-model.mjs"), ...args], {
        cwd: folder,
      });
      await once(made, "close");
    }
    await run("model", "import", file("first.safetensors"), "--name", "m");
    await run("model", "import", file("second.safetensors"), "--name", "m", "--base", "m:1");
    await run("data", "add", "cells", "-", "--kind", "battery-simulated");
    await run("model", "train", "--recipe", "battery-soh", "--data", "cells", "--name", "soh");
  });
  after(async () => {
    if (server !== undefined && server.exitCode === null) {
      const closed = once(server, "close");
      server.kill("SIGTERM");
      await closed;
    }
    await rm(folder, { recursive: true, force: true });
  });

  for (const command of commands)
    it(`${command} works twice, with the same answer`, async () => {
      const words = [...command.split(" "), "-o", "json"];
      const [first, second] = [
        await runStemmaProcess(words, environment),
        await runStemmaProcess(words, environment),
      ];
      assert.equal(first.status, 0, first.stderr);
      assert.equal(second.status, 0, second.stderr);
      const shape = (text: string): unknown => Object.keys(JSON.parse(text) as object);
      assert.deepEqual(shape(second.stdout), shape(first.stdout));
    });
});

/** `stemma console`: commands from standard input, and a prompt on a terminal. */
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { PassThrough } from "node:stream";
import { after, before, describe, it } from "node:test";
import { fileURLToPath } from "node:url";
import type { FleetNames } from "../../../../server/cli/console/fleet-names.js";
import { buildProgram } from "../../../../server/cli/build-program.js";
import { readPrompt, type PromptAnswer } from "../../../../server/cli/console/prompt.js";

const program = fileURLToPath(new URL("../../../../server/cli/main.js", import.meta.url));

describe("the console", () => {
  let folder: string;
  const runScript = (
    lines: readonly string[],
    ...options: string[]
  ): { status: number | null; out: string; errors: string } => {
    const words = [program, "console", "--home", join(folder, "home"), ...options];
    const env = { ...process.env, XDG_CONFIG_HOME: folder };
    const { status, stdout, stderr } = spawnSync(process.execPath, words, {
      input: lines.join("\n"),
      encoding: "utf8",
      env,
    });
    return { status, out: stdout, errors: stderr };
  };
  before(async () => {
    folder = await mkdtemp(join(tmpdir(), "stemma-console-"));
  });
  after(() => rm(folder, { recursive: true, force: true }));

  it("runs the commands of a script with its options, up to exit", () => {
    const { status, out, errors } = runScript(
      [
        "# servers",
        "context add prod --at https://stemma.example",
        "",
        "use -o name",
        "stemma context list",
        "exit",
        "bogus",
      ],
      "--fleet",
      "cars",
    );
    assert.deepEqual({ status, last: out.trim().split("\n").at(-1) }, { status: 0, last: "prod" }, errors);
  });

  it("stops at the first command that fails, with its status, or goes on", () => {
    const lines = ["model list", "console", "context list -o name"];
    const stopped = runScript(lines);
    assert.deepEqual([stopped.status, stopped.out], [3, ""]);
    assert.match(stopped.errors, /line 1 ended with status 3/);
    const all = runScript(lines, "--keep-going");
    assert.deepEqual([all.status, all.out], [5, "prod\n"]);
    assert.match(all.errors, /line 2 ended with status 2/);
  });

  const type = (typed: string, history: readonly string[] = []): Promise<PromptAnswer> => {
    const names: FleetNames = () => Promise.resolve(["van-1"]);
    const input = new PassThrough();
    const answer = readPrompt({
      prompt: "> ",
      history,
      completes: { names, buildProgram },
      typed: "",
      input,
      output: new PassThrough(),
    });
    input.write(typed);
    return answer;
  };

  it("gives what was typed, pasted, or found in the history", async () => {
    assert.deepEqual(await type("model list\r"), { lines: ["model list"], typed: "", isEnd: false });
    assert.deepEqual(await type("model list\rdevice list\rdev"), {
      lines: ["model list", "device list"],
      typed: "dev",
      isEnd: false,
    });
    assert.deepEqual((await type("\u001b[A\u001b[A\r", ["newest", "older"])).lines, ["older"]);
  });

  it("leaves the line at Ctrl-C, and the console at Ctrl-D", async () => {
    assert.deepEqual(await type("model rm\u0003"), { lines: [], typed: "", isEnd: false });
    assert.deepEqual(await type("\u0004"), { lines: [], typed: "", isEnd: true });
  });

  it("completes names of the fleet", async () => {
    const input = new PassThrough();
    const output = new PassThrough();
    const names: FleetNames = () => Promise.resolve(["van-1"]);
    const answer = readPrompt({
      prompt: "> ",
      history: [],
      completes: { names, buildProgram },
      typed: "",
      input,
      output,
    });
    input.write("device show v\t");
    for await (const chunk of output) if (String(chunk).includes("an-1 ")) break;
    input.write("\r");
    assert.deepEqual((await answer).lines, ["device show van-1 "]);
  });
});

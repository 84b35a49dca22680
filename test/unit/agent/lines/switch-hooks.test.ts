/** Hooks as real programs: their order, what they get, how they fail, and what is logged of them. */
import assert from "node:assert/strict";
import { chmod, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, it, type TestContext } from "node:test";
import { SwitchHooks, type LineSwitch } from "../../../../agent/lines/switch-hooks.js";
import { parseConfig } from "../../../../agent/settings/config.js";
import { nodeClock } from "../../../../shared/adapters/node-ports.js";
import { nodeFiles } from "../../../../shared/files/node-files.js";
import type { Clock } from "../../../../shared/ports.js";
import { sha256 } from "../../../../shared/tensor/hash.js";
import { WaitableLog } from "../../../helpers/agent-fixtures.js";
import { manualClock } from "../../../helpers/manual-clock.js";

const change: LineSwitch = {
  line: "cam",
  to: { versionId: sha256("to"), folder: "/versions/to" },
  from: { versionId: sha256("from"), folder: "/versions/from" },
  isReturn: false,
};

/** Hooks before the switch, each a script of Node. */
async function hooksOf(t: TestContext, scripts: readonly string[], clock: Clock = nodeClock()) {
  const home = await mkdtemp(join(tmpdir(), "stemma-hooks-"));
  t.after(() => rm(home, { recursive: true, force: true }));
  const beforeSwitch = [];
  for (const [index, script] of scripts.entries()) {
    const path = join(home, `hook-${index}.cjs`);
    await writeFile(path, script, { mode: 0o600 });
    beforeSwitch.push({ exec: [process.execPath, path, home], timeoutSeconds: 60 });
  }
  const log = new WaitableLog();
  const config = parseConfig({ format: 1, lines: { cam: { hooks: { beforeSwitch } } } }, "test");
  const hooks = new SwitchHooks({
    home,
    config,
    files: nodeFiles(),
    clock,
    log,
    commandOwner: process.getuid?.(),
  });
  return { hooks, home, log };
}

const note = (text: string): string =>
  `require("node:fs").appendFileSync(process.argv[2] + "/notes", ${text} + "\\n");`;

describe("hooks of a line", () => {
  it("run in order with what they need to know, and nothing of the agent's environment", async (t) => {
    const known = ["HOOK", "LINE", "VERSION", "FOLDER", "PREVIOUS_VERSION", "PREVIOUS_FOLDER"];
    const names = JSON.stringify(known.map((name) => `STEMMA_${name}`));
    const { hooks, home } = await hooksOf(t, [
      note(`${names}.map((name) => process.env[name]).join(" ")`),
      note('"second " + Object.keys(process.env).sort().join(" ")'),
    ]);
    await hooks.run("beforeSwitch", change);
    await hooks.run("afterSwitch", change);
    await hooks.run("beforeSwitch", { ...change, line: "without-hooks" });
    const { to, from } = change;
    assert.deepEqual((await readFile(join(home, "notes"), "utf8")).trim().split("\n"), [
      `before-switch cam ${to.versionId} ${to.folder} ${from?.versionId} ${from?.folder}`,
      "second HOME LANG PATH STEMMA_CURRENT STEMMA_FOLDER STEMMA_HOOK STEMMA_LINE STEMMA_PREVIOUS_FOLDER STEMMA_PREVIOUS_VERSION STEMMA_VERSION TMPDIR",
    ]);
  });

  it("end with the first that fails, which says why", async (t) => {
    const { hooks, home } = await hooksOf(t, [
      'console.error("the camera is off"); process.exit(3)',
      note('"not reached"'),
    ]);
    await assert.rejects(
      hooks.run("beforeSwitch", change),
      ({ code, message }: { code: string; message: string }) =>
        code === "HOOK_FAILED" &&
        message.includes("lines.cam.hooks.beforeSwitch.0 of agent.json ended with status 3") &&
        message.includes("the camera is off"),
    );
    await assert.rejects(readFile(join(home, "notes")), { code: "ENOENT" });
  });

  it("fail when they do not end in time, also where they ignore SIGTERM", async (t) => {
    const clock = manualClock();
    const script =
      'process.on("SIGTERM", () => console.log("no")); console.log("ready"); setInterval(() => 0, 1000)';
    const { hooks, log } = await hooksOf(t, [script], clock);
    const running = assert.rejects(hooks.run("beforeSwitch", change), { code: "HOOK_FAILED" });
    await log.until("hook-output", 1, ({ text }) => text === "ready");
    clock.advance(60_000);
    await log.until("hook-output", 1, ({ text }) => text === "no");
    clock.advance(2_000);
    // Its pipes are read to their end before it counts as ended.
    for (;;) {
      if (
        (await Promise.race([running.then(() => "ended"), new Promise((r) => setImmediate(r))])) === "ended"
      )
        break;
      clock.advance(100);
    }
  });

  it("are logged in part, however much they write", async (t) => {
    const { hooks, log } = await hooksOf(t, [
      'for (let i = 0; i < 5000; i++) console.log(String(i).padEnd(2000, "x"))',
    ]);
    await hooks.run("beforeSwitch", change);
    assert.equal(log.count("hook-output"), 51);
  });

  it("do not run where others may change them", async (t) => {
    const { hooks, home } = await hooksOf(t, ["process.exit(0)"]);
    await chmod(join(home, "hook-0.cjs"), 0o666);
    await assert.rejects(hooks.run("beforeSwitch", change), { code: "HOOK_FAILED" });
  });

  it("are ended with the agent, and their switch is not refused", async (t) => {
    const { hooks, log } = await hooksOf(t, ['console.log("ready"); setInterval(() => 0, 1000)']);
    const running = assert.rejects(hooks.run("beforeSwitch", change), { code: "INTERRUPTED" });
    await log.until("hook-output", 1, { text: "ready" });
    hooks.stop();
    await running;
    await assert.rejects(hooks.run("beforeSwitch", change), { code: "INTERRUPTED" });
  });
});

/** The demo's processes are of the demo alone: a person's own server and home are not theirs. */
import assert from "node:assert/strict";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { ChildProcesses } from "../../../../../server/cli/demo/child-processes.js";

test("a process gets the demo's settings, and none of the person's own", async (t) => {
  const logs = await mkdtemp(join(tmpdir(), "stemma-demo-"));
  t.after(() => rm(logs, { recursive: true, force: true }));
  const before = process.env["STEMMA_SERVER"];
  process.env["STEMMA_SERVER"] = "https://owner.example";
  t.after(() => {
    if (before === undefined) delete process.env["STEMMA_SERVER"];
    else process.env["STEMMA_SERVER"] = before;
  });
  const processes = new ChildProcesses(logs);
  const script = "console.log(JSON.stringify(process.env))";
  const { status, stdout } = await processes.run(
    { program: process.execPath, args: ["-e", script] },
    { STEMMA_HOME: "/demo" },
  );
  await processes.stopAll();
  const seen = JSON.parse(stdout) as Readonly<Record<string, string | undefined>>;
  assert.equal(status, 0);
  assert.deepEqual([seen["STEMMA_SERVER"], seen["STEMMA_HOME"]], [undefined, "/demo"]);
  assert.equal(seen["PATH"], process.env["PATH"]);
});

/** The demo's folder: a demo on other data gets a folder of its own, and finds it again. */
import assert from "node:assert/strict";
import { mkdir, mkdtemp, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { it } from "node:test";
import {
  cleanDemo,
  clockOption,
  hashOfData,
  prepareDemoHome,
} from "../../../../../server/cli/demo/demo-home.js";

it("keeps what was trained on other data apart", async (t) => {
  const parent = await mkdtemp(join(tmpdir(), "stemma-demo-"));
  t.after(() => rm(parent, { recursive: true, force: true }));
  const home = join(parent, "demo");
  const [first, second] = await Promise.all(
    [0, 1].map((vehicle) => hashOfData([{ reader: "images-generated", parameters: { vehicle } }])),
  );
  assert.ok(first !== undefined && second !== undefined && first !== second);
  const homeOf = async (data: string): Promise<string> => (await prepareDemoHome(home, data)).home;
  assert.equal(await homeOf(first), home);
  const other = await homeOf(second);
  assert.notEqual(other, home);
  assert.equal(await homeOf(first), home);
  assert.equal(await homeOf(second), other);
  assert.equal(await cleanDemo(home), true);
  assert.equal(await stat(home).catch(() => undefined), undefined);
});

it("takes the clock as it is after a rest of months, and only then", async (t) => {
  const parent = await mkdtemp(join(tmpdir(), "stemma-demo-"));
  t.after(() => rm(parent, { recursive: true, force: true }));
  const server = join(parent, "server");
  await mkdir(server);
  const dayMs = 86_400_000;
  const lastMs = Date.UTC(2026, 0, 1);
  assert.deepEqual(await clockOption({ server }, lastMs), []);
  await writeFile(join(server, "clock.json"), JSON.stringify({ format: 1, trustedMs: lastMs }));
  assert.deepEqual(await clockOption({ server }, lastMs + 29 * dayMs), []);
  assert.deepEqual(await clockOption({ server }, lastMs + 90 * dayMs), ["--accept-clock"]);
});

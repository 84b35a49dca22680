/**
 * What `doctor` says of a home: that of a server with fleets of its own, of nothing, of something that is no
 * home.
 */
import assert from "node:assert/strict";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { examine } from "../../../../server/doctor/examine.js";
import { startTestServer, testFleet } from "../../../helpers/test-server.js";

const homeOf = async (home: string): Promise<{ readonly state: string; readonly found: string }> => {
  const finding = (await examine({ home })).find(({ what }) => what === "home");
  assert.ok(finding);
  return finding;
};

test("a home is examined with all its fleets, through the server that holds it", async () => {
  const server = await startTestServer();
  try {
    const { state, found } = await homeOf(server.home);
    assert.deepEqual([state, found.includes(`fleet ${testFleet} has 0 versions`)], ["good", true], found);
  } finally {
    await server.end();
  }
});

test("no home yet is good, a file in its place is wrong", async () => {
  const folder = await mkdtemp(join(tmpdir(), "stemma-doctor-"));
  try {
    assert.equal((await homeOf(join(folder, "none"))).state, "good");
    await writeFile(join(folder, "file"), "no home");
    assert.equal((await homeOf(join(folder, "file"))).state, "wrong");
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
});

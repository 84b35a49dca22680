/** Homes on a real disk: one writer, short socket paths, the same key every time. */
import assert from "node:assert/strict";
import { mkdir, readdir, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import { homePathOf } from "../../../../../server/storage/repository/home-path.js";
import { maxSocketPathBytes, readRunFolder } from "../../../../../server/storage/repository/home.js";
import { nodeHomePorts, openNodeHome } from "../../../../../server/storage/repository/node-home.js";
import { openRepository } from "../../../../../server/storage/repository/open-repository.js";
import { modelOf, temporaryFolder, tensorsOf } from "./harness.js";

test("a home has one writer at a time, and never changes its key", async (context) => {
  const path = join(await temporaryFolder(context), "home");
  const home = await openNodeHome(path);
  await assert.rejects(openNodeHome(path), { code: "HOME_LOCKED" });
  assert.deepEqual(await home.fleets(), []);
  const repository = await openRepository(home, "local");
  const { summary } = await repository.save(modelOf(tensorsOf("m")), { name: "soh" });
  assert.equal(summary.record.device, "server");
  assert.equal(repository.journal.signedHead().publicKey, home.signer.publicKey);
  await repository.close();
  assert.deepEqual(await home.fleets(), ["local"]);
  await home.close();
  const again = await openNodeHome(path);
  assert.equal(again.signer.publicKey, home.signer.publicKey);
  assert.equal(
    (await stat(join(path, "server-key.json"))).mode & 0o077,
    0,
    "the key is readable by its user only",
  );
  await again.close();
});

test("the server's socket has a path under 100 bytes for any home, and is found again", async (context) => {
  const { files } = nodeHomePorts();
  const shallow = join(await temporaryFolder(context), "h");
  const near = await openNodeHome(shallow);
  assert.equal(near.socketPath, join(shallow, "run", "server.sock"));
  await near.close();
  const deep = join(await temporaryFolder(context), "d".repeat(60), "e".repeat(60));
  await mkdir(deep, { recursive: true });
  const far = await openNodeHome(join(deep, "home"));
  assert.ok(Buffer.byteLength(far.socketPath) <= maxSocketPathBytes);
  assert.equal((await stat(far.runFolder)).mode & 0o077, 0, "others may not enter the run folder");
  assert.equal(await readRunFolder(files, join(deep, "home")), far.runFolder);
  await far.close();
  const again = await openNodeHome(join(deep, "home"));
  assert.equal(again.socketPath, far.socketPath);
  await again.close();
  await files.remove(far.runFolder);
});

test("a folder that is not a home is refused before anything is written into it", async (context) => {
  const folder = await temporaryFolder(context);
  await writeFile(join(folder, "letter.txt"), "x");
  await assert.rejects(openNodeHome(folder), { code: "HOME_FORMAT_UNKNOWN" });
  assert.deepEqual(await readdir(folder), ["letter.txt"]);
});

test("names of fleets cannot leave their folder", async (context) => {
  const home = await openNodeHome(join(await temporaryFolder(context), "home"));
  for (const fleet of ["..", "a/b", "", ".hidden", "a".repeat(65), "a\0b"])
    assert.throws(() => home.fleetFolder(fleet), { code: "NAME_INVALID" }, fleet);
  await home.close();
});

test("--home takes precedence over STEMMA_HOME, and STEMMA_HOME over ~/.stemma", () => {
  assert.equal(homePathOf("/a", { STEMMA_HOME: "/b" }, "/u"), "/a");
  assert.equal(homePathOf(undefined, { STEMMA_HOME: "/b" }, "/u"), "/b");
  assert.equal(homePathOf(undefined, { STEMMA_HOME: "" }, "/u"), "/u/.stemma");
});

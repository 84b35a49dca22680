// The server's key changes: who was away once follows, who was away longer is told what to do, a stolen key ends.
import assert from "node:assert/strict";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import { invitedExchange } from "../../../../../agent/identity/exchanges.js";
import { startAgent } from "../../../../../agent/main.js";
import { revokeKeyBefore } from "../../../../../server/storage/repository/rotate-key.js";
import { loadEnrolment, sealEnrolment } from "../../../../../shared/trust/enrolment.js";
import { fakeTraining, testProfile, WaitableLog } from "../../../../helpers/agent-fixtures.js";
import { testFleet } from "../../../../helpers/test-server.js";
import { ServerWithChangingKey, files, overlap, random } from "./server-with-changing-key.js";

const refused = { code: "CERTIFICATE_REFUSED" };

test("a device that was away while the key changed follows it, and so does an invitation", async (t) => {
  const one = await ServerWithChangingKey.start(t);
  const before = await one.enrol("van");
  const invitation = await one.invite("late");
  await one.rotate();
  const key = await one.key;
  assert.notEqual(key, before.serverPublicKey);
  const after = await one.dial("van");
  assert.deepEqual([after.serverPublicKey, after.formerServerKeys], [key, [before.serverPublicKey]]);
  assert.notDeepEqual(after.authorities, before.authorities);
  assert.notEqual(after.identity?.key, before.identity?.key);
  await one.connects(after, 1);
  const late = await one.enrolWith(invitation, "late");
  assert.deepEqual([late.serverPublicKey, late.formerServerKeys], [key, [before.serverPublicKey]]);
  await one.connects(late, 1);
  // Again, for the device that followed.
  await one.rotate();
  const again = await one.dial("van");
  assert.deepEqual(again.formerServerKeys, [before.serverPublicKey, key]);
  await one.connects(again, 2);
});

test("a device that does not reach its server over HTTPS follows over MQTT", async (t) => {
  const one = await ServerWithChangingKey.start(t);
  const { http: _, ...before } = await one.enrol("tunnel");
  await writeFile(one.path("tunnel"), JSON.stringify(sealEnrolment(before)));
  await one.rotate();
  const after = await one.dial("tunnel");
  assert.deepEqual(
    [after.serverPublicKey, after.formerServerKeys],
    [await one.key, [before.serverPublicKey]],
  );
  assert.notEqual(after.identity?.key, before.identity?.key);
  await one.connects(after, 1);
});

test("a key that was withdrawn leads nobody any more; who has followed, or is invited again, goes on", async (t) => {
  const one = await ServerWithChangingKey.start(t);
  const [followed, left] = [await one.enrol("followed"), await one.enrol("left")];
  const invitation = await one.invite("late");
  await one.rotate();
  const after = await one.dial("followed");
  await one.whileStopped((home) => revokeKeyBefore(home));
  await assert.rejects(one.dial("left"), refused);
  await assert.rejects(one.renewByFiles("left"), { code: /CERTIFICATE_REFUSED|ENROLMENT_INVALID/ });
  await assert.rejects(one.enrolWith(invitation, "late"), refused);
  await one.dial("followed");
  await one.connects(after, 1);
  const again = await one.enrol("left");
  assert.deepEqual([again.generation, again.formerServerKeys], [left.generation + 1, undefined]);
  await one.connects(again, 1);
  assert.notEqual(again.serverPublicKey, followed.serverPublicKey);
  await assert.rejects(
    one.whileStopped((home) => revokeKeyBefore(home)),
    { code: "NOT_FOUND" },
  );
  await one.restart();
  // At once, with the change.
  await one.rotate({ ...overlap, revokeOld: true });
  await assert.rejects(one.dial("followed"), refused);
});

test("an agent that runs while the key changes goes on, and announces nothing twice", async (t) => {
  const one = await ServerWithChangingKey.start(t);
  const home = join(one.folder, "home");
  await files.makeFolder(home);
  const path = join(home, "enrolment.json");
  const exchange = await invitedExchange({ files, random, path }, await one.invite("v1"));
  const before = await exchange.take(await exchange.send(await exchange.request()));
  const events = new WaitableLog();
  const handle = await startAgent(
    { home, config: { format: 1 }, profile: { ...testProfile({}) }, log: events },
    { train: fakeTraining().train, checkRecipe: () => undefined },
  );
  t.after(() => handle.close());
  await events.until("welcomed");
  const welcomed = events.next("welcomed");
  await one.rotate();
  await events.until("server-key-changed");
  await welcomed;
  assert.equal(events.count("server-changed"), 0);
  const after = await loadEnrolment(files, path);
  assert.deepEqual(
    [after.serverPublicKey, after.formerServerKeys],
    [await one.key, [before.serverPublicKey]],
  );
  // A command is signed by the new key.
  await one.server.handle.operations.setDevices({
    fleet: testFleet,
    device: "v1",
    settings: { "log.level": "debug" },
  });
  await events.until("settings-changed");
});

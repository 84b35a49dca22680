/** Changes of the server's key: more than one, after the overlap, across backups, with tokens. */
import assert from "node:assert/strict";
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import { invitedExchange } from "../../../../../agent/identity/exchanges.js";
import { openNodeHome } from "../../../../../server/storage/repository/node-home.js";
import { rotateServerKey } from "../../../../../server/storage/repository/rotate-key.js";
import { loadEnrolment, sealEnrolment } from "../../../../../shared/trust/enrolment.js";
import { runStemmaHere, type ProgramResult } from "../../../../helpers/run-stemma-here.js";
import { testFleet } from "../../../../helpers/test-server.js";
import { ServerWithChangingKey, files, overlap, random } from "./server-with-changing-key.js";

const refused = { code: "CERTIFICATE_REFUSED" };

test("a device that was away for two changes is told what to do, and files that are carried do it", async (t) => {
  const one = await ServerWithChangingKey.start(t);
  const before = await one.enrol("parked");
  const invitation = await one.invite("late");
  await one.rotate();
  await one.rotate();
  await assert.rejects(one.dial("parked"), { ...refused, message: /stemma agent renew --request FILE/ });
  await assert.rejects(one.enrolWith(invitation, "late"), refused);
  const after = await one.renewByFiles("parked");
  assert.equal(after.serverPublicKey, await one.key);
  assert.equal(after.formerServerKeys?.[0], before.serverPublicKey);
  await one.dial("parked");
  await one.connects(after, 1);
});

test("after the overlap the key before opens nothing, and files still lead to the new one", async (t) => {
  const one = await ServerWithChangingKey.start(t);
  await one.enrol("parked");
  const invitation = JSON.parse(await readFile(await one.invite("late"), "utf8")) as object;
  await one.rotate({ overlapMs: 0 });
  await assert.rejects(one.dial("parked"), refused);
  const exchange = await invitedExchange(
    { files, random, path: one.path("late") },
    join(one.folder, "late.invitation.json"),
  );
  const request = await exchange.request();
  assert.deepEqual(request.invitation, invitation);
  await assert.rejects(one.server.handle.operations.certify({ request }), refused);
  await one.renewByFiles("parked");
  await one.dial("parked");
});

test("the journal, kept heads and backups go on across a change", async (t) => {
  const one = await ServerWithChangingKey.start(t);
  const { home } = one.server;
  const run = async (...args: string[]): Promise<ProgramResult> =>
    runStemmaHere([...args, "--fleet", testFleet], { home });
  const good = async (...args: string[]): Promise<string> => {
    const { status, stdout, stderr } = await run(...args);
    assert.equal(status, 0, stderr);
    return stdout;
  };
  const heads = join(one.folder, "heads");
  const exported = join(one.folder, "exported");
  const backup = join(one.folder, "backup");
  const key = await one.key;
  assert.match((await run("server-key", "rotate")).stderr, /HOME_LOCKED/);
  await good("journal", "head", "--witness", heads);
  await good("storage", "backup", backup, "--plain-key");
  await one.server.handle.close();
  assert.match(await good("server-key", "rotate", "--dry-run"), new RegExp(`would replace the key ${key}`));
  assert.match(await good("server-key", "rotate", "--overlap", "30d"), /is good until/);
  const present = (JSON.parse(await good("server-key", "show", "-o", "json")) as { publicKey: string })
    .publicKey;
  assert.notEqual(present, key);
  await good("journal", "head", "--witness", heads);
  await good("journal", "verify", "--witness", heads);
  await good("journal", "verify", "--key", key);
  await good("journal", "export", "--file", exported);
  await good("journal", "verify", "--log", exported, "--key", key);
  const { facts } = JSON.parse(await good("journal", "list", "-o", "json")) as {
    facts: readonly { readonly type: string; readonly by?: { readonly through: string } }[];
  };
  assert.deepEqual(
    facts.filter(({ type }) => type === "server-key").map(({ by }) => by?.through),
    ["command"],
  );
  await good("storage", "backup", backup, "--plain-key");
  const restored = join(one.folder, "restored");
  assert.equal((await runStemmaHere(["storage", "restore", backup], { home: restored })).status, 0);
  const shown = await runStemmaHere(["server-key", "show", "-o", "json"], { home: restored });
  assert.deepEqual(
    [present, [key]],
    [
      (JSON.parse(shown.stdout) as { publicKey: string }).publicKey,
      (JSON.parse(shown.stdout) as { before: string[] }).before,
    ],
  );
  await good("server-key", "revoke-old");
  assert.match((await run("journal", "verify", "--key", key)).stderr, /HEAD_SIGNATURE_INVALID/);
  await good("journal", "verify", "--key", present);
  assert.match((await run("server-key", "rotate", "--overlap", "soon")).stderr, /\[USAGE\]/);
  await one.restart();
});

test("a device with a token goes on with its file written again", async (t) => {
  const one = await ServerWithChangingKey.start(t);
  await one.server.restart({ deviceTokens: true });
  const enrolment = await one.server.enroll("old");
  const file = one.path("old");
  await writeFile(file, JSON.stringify(enrolment));
  await one.server.handle.close();
  const home = await openNodeHome(one.server.home);
  await rotateServerKey(home, overlap);
  await home.close();
  await one.server.restart({ deviceTokens: true });
  await assert.rejects(one.dial("old"), { ...refused, message: /--readdress/ });
  const { status, stderr } = await runStemmaHere(
    ["device", "enroll", "old", "--readdress", file, "--fleet", testFleet],
    { home: one.server.home },
  );
  assert.equal(status, 0, stderr);
  const moved = await loadEnrolment(files, file);
  assert.deepEqual(
    [moved.serverPublicKey, moved.formerServerKeys],
    [await one.key, [enrolment.serverPublicKey]],
  );
  assert.equal(moved.token, sealEnrolment(enrolment).token);
  await one.connects(moved, 1);
});

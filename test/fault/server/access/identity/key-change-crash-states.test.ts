/**
 * The server's key is changed, changed again, and the key before withdrawn, with a crash at every moment. Each state
 * opens with a key that led from the first, every fleet's journal opens with it and has each change once, and whoever
 * knows an earlier key is led to the present one unless that was withdrawn.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import { changesToShow } from "../../../../../server/access/identity/key-changes.js";
import { openHome, type HomePorts } from "../../../../../server/storage/repository/home.js";
import { openRepository } from "../../../../../server/storage/repository/open-repository.js";
import { revokeKeyBefore, rotateServerKey } from "../../../../../server/storage/repository/rotate-key.js";
import type { Files } from "../../../../../shared/ports.js";
import { followKeyChanges } from "../../../../../shared/trust/key-change.js";
import { verifyHead } from "../../../../../shared/trust/signatures.js";
import { checkCrashStates, crashStateCount } from "../../../../helpers/crash-states.js";
import { manualClock, seededRandom } from "../../../../helpers/manual-clock.js";

/** A key that the server certainly has, or had and certainly replaced. */
interface Mark {
  readonly key: string;
  readonly isWithdrawn: boolean;
}

const fleets = ["cars", "vans"];

function portsOn(files: Files, seed: string): HomePorts {
  return {
    files,
    clock: manualClock(1_790_000_000_000),
    random: seededRandom(seed),
    environment: { backend: "none" },
  };
}

/** Opens the home and its fleets, whose journals then have every change. */
async function open(files: Files, seed: string): Promise<Awaited<ReturnType<typeof openHome>>> {
  const home = await openHome("/home", portsOn(files, seed));
  for (const fleet of fleets) {
    const repository = await openRepository(home, fleet);
    const noted: string[] = [];
    for await (const { fact } of repository.journal.entries())
      if (fact.type === "server-key" && !fact.revoked) noted.push(fact.publicKey);
    assert.deepEqual(
      noted,
      home.keyChanges.map(({ change }) => change.to),
      "each change is a fact, once",
    );
    const head = repository.journal.signedHead();
    const keyChanges = changesToShow(home.keyChanges);
    for (const [index, { change }] of home.keyChanges.entries()) {
      const isWithdrawn = home.keyChanges.slice(index).some(({ revokedAtMs }) => revokedAtMs !== undefined);
      const shown = { ...head, keyChanges };
      if (isWithdrawn)
        assert.throws(() => verifyHead(change.from, shown), { code: "HEAD_SIGNATURE_INVALID" });
      else verifyHead(change.from, shown);
    }
    verifyHead(home.signer.publicKey, head);
    await repository.close();
  }
  return home;
}

async function work(files: Files, mark: (mark: Mark) => void): Promise<void> {
  let home = await open(files, "work");
  mark({ key: home.signer.publicKey, isWithdrawn: false });
  for (let change = 0; change < 2; change++) {
    const { publicKey } = await rotateServerKey(home, { overlapMs: 86_400_000 });
    mark({ key: publicKey, isWithdrawn: false });
    await home.close();
    home = await open(files, `work-${change}`);
  }
  const { before } = await revokeKeyBefore(home);
  mark({ key: before, isWithdrawn: true });
  await home.close();
  await (await open(files, "end")).close();
}

async function check(files: Files, marks: readonly Mark[]): Promise<void> {
  const home = await open(files, "check");
  const keys = [...home.keyChanges.map(({ change }) => change.from), home.signer.publicKey];
  for (const { key, isWithdrawn } of marks) {
    const at = keys.indexOf(key);
    assert.ok(at >= 0, "no key is forgotten");
    if (isWithdrawn)
      assert.notEqual(followKeyChanges(key, changesToShow(home.keyChanges)).publicKey, home.signer.publicKey);
  }
  const newest = marks.filter(({ isWithdrawn }) => !isWithdrawn).at(-1);
  // What comes after the last mark may have happened or not.
  if (newest !== undefined) assert.ok(keys.indexOf(newest.key) >= keys.length - 2);
  await home.close();
}

test("a crash at any moment of a change of the server's key leaves one key, and the way to it", async () => {
  await checkCrashStates({ name: "server-key", run: work, check, states: Math.ceil(crashStateCount() / 8) });
});

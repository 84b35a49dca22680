/** What `rollout` says of a device that passed and did not switch, once the server serves it no longer. */
import assert from "node:assert/strict";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { openFleets } from "../../../../server/services/context/open-fleets.js";
import { localOperations } from "../../../../server/operations/local-operations.js";
import { openNodeHome } from "../../../../server/storage/repository/node-home.js";
import type { Fact } from "../../../../shared/journal/fact.js";
import { defaultPolicy } from "../../../../shared/journal/facts/rollout-policy.js";
import { fileOf, imports } from "../interface/http/http-requests.js";

test("a device that was revoked before it switched is not said to switch", async (t) => {
  const path = await mkdtemp(join(tmpdir(), "stemma-standing-"));
  const home = await openNodeHome(path);
  const fleets = openFleets(home);
  t.after(async () => {
    await fleets.close();
    await home.close();
    await rm(path, { recursive: true, force: true });
  });
  const operations = localOperations({ home, fleets, version: "test" });
  const fleet = "cars";
  const devices = ["a", "b"];
  for (const device of devices) await operations.enroll({ fleet, device, lines: ["soh"] });
  const file = await fileOf({ weight: Uint8Array.of(1, 2, 3) });
  await operations.import(imports(file), { fleet, name: "m" });
  const { versionId } = await operations.model({ fleet, model: "m" });
  const repository = await fleets.get(fleet);
  const common = { atMs: home.ports.clock.now(), rollout: "spring" };
  const facts: readonly Fact[] = [
    {
      type: "rollout",
      ...common,
      critical: true,
      line: "soh",
      versionId,
      select: "all",
      policy: defaultPolicy,
    },
    { type: "rollout-phase", ...common, phase: "running", because: "" },
    { type: "wave", ...common, wave: 1, devices },
    ...devices.flatMap((device): Fact[] => [
      { type: "judged", ...common, device, verdict: "passed", because: "", before: null },
      { type: "assigned", ...common, device, line: "soh", versionId },
    ]),
  ];
  for (const fact of facts) await repository.append(fact);
  const missed = async (): Promise<number | undefined> =>
    (await operations.rollout({ fleet, rollout: "spring" })).devices.missed;
  assert.equal(await missed(), undefined);
  await operations.revoke({ fleet, device: "a" });
  assert.equal(await missed(), 1);
  const { members } = await operations.rollout({ fleet, rollout: "spring" });
  assert.deepEqual(
    members.map(({ device, switched, givenOther }) => [device, switched, givenOther]),
    [
      ["a", false, true],
      ["b", false, undefined],
    ],
  );
});

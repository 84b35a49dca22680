/** Labels of devices: kept in the journal, with who gave them, over restarts and new enrolments; all or none. */
import assert from "node:assert/strict";
import { rm } from "node:fs/promises";
import { after, before, it } from "node:test";
import type { ServerOperations } from "../../../../server/interface/api/server-operations.js";
import { openLocalOperations } from "../../../../server/operations/local-operations.js";
import { currentUser } from "../../../../shared/adapters/current-user.js";
import { newHomeWithTokens } from "../../../helpers/home-with-tokens.js";

const fleet = "cars";
let home: string;
let operations: ServerOperations;
before(async () => {
  home = await newHomeWithTokens("stemma-labels-");
  operations = await openLocalOperations({ home });
  for (const device of ["van-1", "van-2", "truck"])
    await operations.enroll({ fleet, device, lines: ["soh"], profile: "generic" });
});
after(async () => {
  await operations.close();
  await rm(home, { recursive: true, force: true });
});

const selected = async (select: string): Promise<readonly string[]> =>
  (await operations.devices({ fleet, select })).map(({ device }) => device);

it("are given, changed and taken away, also through a selection", async () => {
  const labels = { region: "eu", depot: "Lyon 2" };
  assert.deepEqual(await operations.labelDevices({ fleet, device: "van-1", labels }), [
    { device: "van-1", labels },
  ]);
  await operations.labelDevices({ fleet, select: "name=v*", labels: { wave: "1", depot: null } });
  assert.deepEqual((await operations.device({ fleet, device: "van-1" })).labels, { region: "eu", wave: "1" });
  assert.deepEqual(await selected("label.wave=1 and not label.region"), ["van-2"]);
  const { facts } = await operations.journal({ fleet });
  const labelled = facts.filter(({ type }) => type === "labelled");
  const by = { who: currentUser(), through: "command" };
  assert.deepEqual(
    labelled.map((fact) => [fact["device"], fact["by"]]),
    [
      ["van-1", by],
      ["van-1", by],
      ["van-2", by],
    ],
  );
});

it("are listed page by page, also those that a selection means", async () => {
  const page = async (query: {
    select?: string;
    offset?: number;
    limit?: number;
  }): Promise<readonly string[]> =>
    (await operations.devices({ fleet, ...query })).map(({ device }) => device);
  const all = await page({});
  assert.equal(all.length, 3);
  assert.deepEqual(await page({ limit: 2 }), all.slice(0, 2));
  assert.deepEqual(await page({ offset: 2, limit: 2 }), all.slice(2));
  assert.deepEqual(
    await page({ select: "name=v*", offset: 1, limit: 5 }),
    (await selected("name=v*")).slice(1),
  );
  assert.deepEqual(await page({ offset: 3 }), []);
});

it("stay after a restart and a new enrolment", async () => {
  await operations.enroll({ fleet, device: "van-1", lines: ["soh"], profile: "generic" });
  await operations.close();
  operations = await openLocalOperations({ home });
  assert.deepEqual(await selected("label.region=eu"), ["van-1"]);
});

it("are changed on all devices or on none", async () => {
  const labels = Object.fromEntries(Array.from({ length: 62 }, (_, index) => [`k${index}`, "x"]));
  await operations.labelDevices({ fleet, device: "truck", labels: { a: "1", b: "2", c: "3" } });
  await assert.rejects(operations.labelDevices({ fleet, select: "name=*", labels }), {
    code: "LABEL_INVALID",
  });
  assert.deepEqual(await selected("label.k1"), []);
  const would = await operations.labelDevices({ fleet, device: "van-2", labels: { d: "4" }, dryRun: true });
  assert.deepEqual(would, [{ device: "van-2", labels: { wave: "1", d: "4" } }]);
  assert.deepEqual(await selected("label.d"), []);
});

it("are refused where they are no labels, or nothing says for which devices", async () => {
  const of = (labels: Record<string, string | null>, code: string): Promise<void> =>
    assert.rejects(operations.labelDevices({ fleet, device: "van-1", labels }), { code });
  await of({}, "USAGE");
  for (const key of ["", "a b", "-a", "a-", "ä", "x".repeat(64)]) await of({ [key]: "1" }, "LABEL_INVALID");
  await of({ a: "" }, "LABEL_INVALID");
  await of({ a: "x".repeat(257) }, "LABEL_INVALID");
  const labels = { a: "1" };
  await assert.rejects(operations.labelDevices({ fleet, labels }), { code: "USAGE" });
  await assert.rejects(operations.labelDevices({ fleet, device: "van-1", select: "name=*", labels }), {
    code: "USAGE",
  });
  await assert.rejects(operations.labelDevices({ fleet, device: "ghost", labels }), {
    code: "DEVICE_UNKNOWN",
  });
  await assert.rejects(operations.labelDevices({ fleet, select: "name", labels }), {
    code: "SELECTION_INVALID",
  });
  assert.deepEqual(await operations.labelDevices({ fleet, select: "name=none", labels }), []);
});

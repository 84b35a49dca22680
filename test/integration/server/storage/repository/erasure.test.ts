/**
 * Erasing a device: what only it gave is gone from every file, what others have is recovered bit for bit, and a kill
 * between any two steps costs nothing but another call.
 */
import assert from "node:assert/strict";
import { join } from "node:path";
import { test } from "node:test";
import type { FleetRepository } from "../../../../../server/storage/repository/fleet-repository.js";
import type { Files } from "../../../../../shared/ports.js";
import type { Hash } from "../../../../../shared/tensor/tensor.js";
import { codedAgainst, idOfTensor, memberOf, writePack } from "../../../../helpers/coded-tensors.js";
import {
  hasUsesOfSeed,
  memoryHome,
  modelOf,
  openRepository,
  places,
  sameTensors,
  seededBytes,
  usesOfSeed,
  type NamedTensor,
  type TestHome,
} from "./harness.js";

const shape = [40, 40];
const layer = (family: number, member: number): NamedTensor => ({
  name: `layer${family}`,
  ...memberOf(family, member, shape),
});
const models = {
  base: [layer(1, 0), layer(2, 0)],
  /** Of van-1: layer 1 of the base stays, layer 2 is its own. */
  mine: [layer(1, 0), layer(2, 1)],
  mineToo: [layer(1, 1), layer(2, 1)],
  /** Of van-2, trained from van-1's: layer 1 is van-1's, layer 2 is coded against van-1's. */
  other: [layer(1, 1), layer(2, 2)],
};
type Name = keyof typeof models;
const attachment = { name: "notes.txt", bytes: new TextEncoder().encode("what van-1 saw on its way home") };

interface Filled {
  readonly repository: FleetRepository;
  readonly ids: Readonly<Record<Name, Hash>>;
}

async function fill({ home }: TestHome): Promise<Filled> {
  const repository = await openRepository(home, "cars");
  for (const device of ["van-1", "van-2"])
    await repository.append({
      type: "enrolled",
      atMs: 1,
      device,
      generation: 1,
      publicKey: "k",
      tokenHash: "t",
      profile: "generic",
      lines: ["cam"],
    });
  await repository.append({ type: "labelled", atMs: 2, device: "van-1", labels: { owner: "somebody" } });
  const ids: Partial<Record<Name, Hash>> = {};
  const save = async (name: Name, base: Name | undefined, device: string | undefined): Promise<void> => {
    const { summary } = await repository.save(modelOf(models[name]), {
      name,
      ...(base === undefined ? {} : { bases: [ids[base] as Hash] }),
      ...(device === undefined ? {} : { device, line: "cam" }),
      ...(name === "mineToo" ? { uses: usesOfSeed("van-1"), attachments: [attachment] } : {}),
      ...(name === "other" ? { uses: usesOfSeed("van-2") } : {}),
    });
    ids[name] = summary.versionId;
  };
  await save("base", undefined, undefined);
  await save("mine", "base", "van-1");
  await save("mineToo", "mine", "van-1");
  await save("other", "mineToo", "van-2");
  const coded = codedAgainst(memberOf(2, 2, shape), memberOf(2, 1, shape));
  await writePack(repository.objects, [coded], { recode: true });
  const encoding = repository.objects.encodingOf(idOfTensor(memberOf(2, 2, shape)));
  assert.equal(encoding?.base, idOfTensor(memberOf(2, 1, shape)));
  return { repository, ids: ids as Record<Name, Hash> };
}

/** What only van-1 gave. */
const secrets = {
  "the tensor that only its versions have": memberOf(2, 1, shape).bytes,
  "its attachment": attachment.bytes,
  "its recipe": seededBytes("recipe/van-1", 40),
  "the data that only it gave": seededBytes("data/van-1", 60),
};
const common = {
  "a tensor that another device has too": memberOf(1, 1, shape).bytes,
  "a tensor that was coded against one of its own": memberOf(2, 2, shape).bytes,
};

/** Names of these that some file of the home has, in any place. */
async function foundIn(
  files: Files,
  folder: string,
  wanted: Readonly<Record<string, Uint8Array>>,
): Promise<readonly string[]> {
  const found = new Set<string>();
  const look = async (path: string): Promise<void> => {
    const stat = await files.stat(path);
    if (stat?.kind === "folder") for (const name of await files.list(path)) await look(join(path, name));
    if (stat?.kind !== "file") return;
    const bytes = Buffer.from(await files.read(path));
    for (const [name, secret] of Object.entries(wanted))
      if (bytes.includes(Buffer.from(secret))) found.add(name);
  };
  await look(folder);
  return [...found].sort();
}

async function assertErased({ repository, ids }: Filled, { files, path }: TestHome): Promise<void> {
  assert.deepEqual(await foundIn(files, path, secrets), []);
  assert.deepEqual(await foundIn(files, path, common), Object.keys(common).sort());
  for (const name of ["mine", "mineToo"] as const) {
    const about = repository.get(ids[name]);
    assert.equal(about?.state, "retired");
    assert.deepEqual(about.record.bases.length, 1, "its parents are still known");
    await assert.rejects(repository.recover(ids[name]), { code: "MODEL_ERASED" });
  }
  for (const name of ["base", "other"] as const)
    assert.ok(await sameTensors(repository, ids[name], models[name]), name);
  assert.ok(await hasUsesOfSeed(repository, ids.other, "van-2"));
  assert.deepEqual((await repository.check()).problems, []);
  const device = repository.device("van-1");
  assert.equal(device?.erased?.because, "sold");
  assert.equal(device.labels, undefined);
}

for (const [place, makeHome] of places)
  test(`${place}: what a device gave is gone from the home, and others have all they had`, async (context) => {
    const home = await makeHome(context);
    const filled = await fill(home);
    const { repository } = filled;
    await repository.collect(await repository.planCollection());
    assert.deepEqual(
      await foundIn(home.files, home.path, secrets),
      Object.keys(secrets).sort(),
      "the search finds what is there",
    );
    await assert.rejects(repository.planErasure(["van-9"]), { code: "DEVICE_UNKNOWN" });
    await assert.rejects(repository.eraseDevices(["van-1"], "sold"), { code: "NOT_ALLOWED" });
    await repository.append({ type: "revoked", atMs: 5, device: "van-1", because: "sold" });
    await repository.hold(filled.ids.mine, "an incident");
    await assert.rejects(repository.eraseDevices(["van-1"], "sold"), { code: "MODEL_HELD" });
    await repository.unhold(filled.ids.mine, "it is over");
    await repository.append({
      type: "activated",
      ...{ atMs: 6, deviceAtMs: 6, deviceClockErrorMs: 0, session: 1 },
      ...{ device: "van-2", line: "cam", versionId: filled.ids.mineToo },
    });
    await assert.rejects(repository.eraseDevices(["van-1"], "sold"), { code: "MODEL_IN_USE" });
    await repository.append({
      type: "activated",
      ...{ atMs: 7, deviceAtMs: 7, deviceClockErrorMs: 0, session: 1 },
      ...{ device: "van-2", line: "cam", versionId: filled.ids.other },
    });
    const plan = await repository.planErasure(["van-1"]);
    assert.deepEqual(
      [plan.versions, plan.sharedTensors, plan.recodedTensors, plan.descendants, plan.leased],
      [2, 2, 1, 1, 0],
    );
    assert.equal(plan.recodedBytes, 4 * 40 * 40);
    assert.deepEqual(await repository.planErasure(["van-1"]), plan, "a plan changes nothing");
    assert.ok(await sameTensors(repository, filled.ids.mineToo, models.mineToo));
    // What was written lately is pinned for a while, in case a fact follows that needs it.
    home.ports.clock.advance(3_600_000);
    const erased = await repository.eraseDevices(["van-1"], "sold");
    assert.equal(erased.left, 0);
    assert.ok(erased.freedBytes > 0);
    await assertErased(filled, home);
    const again = await repository.eraseDevices(["van-1"], "again");
    assert.deepEqual([again.versions, again.objects, again.recodedTensors], [0, 0, 0]);
    await repository.close();
    const reopened = await openRepository(await home.reopen(), "cars");
    await assertErased({ ...filled, repository: reopened }, home);
    await assert.rejects(
      Promise.resolve().then(() => reopened.resolve("mine")),
      { code: "MODEL_ERASED" },
    );
    await reopened.close();
  });

test("an erasure that was cut off by a failing disk goes on when it is run again", async () => {
  let cut = 0;
  for (let isWhole = false; !isWhole;) {
    cut++;
    const home = await memoryHome();
    const filled = await fill(home);
    await filled.repository.append({ type: "revoked", atMs: 5, device: "van-1", because: "sold" });
    await filled.repository.close();
    // The process dies at the cut-th change to the disk.
    let changes = 0;
    const { files } = home;
    const dying: Files = {
      ...files,
      rename: (from, to) => (++changes >= cut ? Promise.reject(new Error("killed")) : files.rename(from, to)),
      remove: (path) => (++changes >= cut ? Promise.reject(new Error("killed")) : files.remove(path)),
    };
    const first = await openRepository(
      { ...(await home.reopen()), ports: { ...home.ports, files: dying } },
      "cars",
    ).catch(() => undefined);
    changes = 0;
    isWhole = await (first?.eraseDevices(["van-1"], "sold").then(
      () => changes < cut,
      () => false,
    ) ?? Promise.resolve(false));
    await first?.close().catch(() => undefined);
    const second = await openRepository(await home.reopen(), "cars");
    // Its labels may be gone, and with them the selection that meant it: any erasure goes on with it.
    const isStated = second.device("van-1")?.erased !== undefined;
    if (!isWhole) await second.eraseDevices(isStated ? [] : ["van-1"], "sold");
    await assertErased({ ...filled, repository: second }, home);
    await second.close();
    assert.ok(cut < 200, "it never ended");
  }
  assert.ok(cut > 3, `it was cut off at ${cut - 1} places`);
});

test("several devices are erased as one: what only they have in common goes too", async () => {
  const home = await memoryHome();
  const { repository, ids } = await fill(home);
  await repository.append({ type: "revoked", atMs: 5, device: "van-1", because: "sold" });
  const both = ["van-1", "van-2"];
  await assert.rejects(repository.eraseDevices(both, "sold"), { code: "NOT_ALLOWED" });
  assert.equal(repository.device("van-1")?.erased, undefined, "all or none");
  await repository.append({ type: "revoked", atMs: 5, device: "van-2", because: "sold" });
  home.ports.clock.advance(3_600_000);
  const plan = await repository.planErasure(both);
  assert.deepEqual(
    [plan.devices, plan.unfinished, plan.versions, plan.sharedTensors, plan.recodedTensors, plan.descendants],
    [both, [], 3, 1, 0, 0],
  );
  const erased = await repository.eraseDevices(both, "sold");
  assert.equal(erased.left, 0);
  assert.deepEqual(await foundIn(home.files, home.path, { ...secrets, ...common }), []);
  assert.ok(await sameTensors(repository, ids.base, models.base));
  for (const device of both) assert.equal(repository.device(device)?.erased?.because, "sold");
  assert.deepEqual((await repository.planErasure([])).unfinished, []);
  await repository.close();
});

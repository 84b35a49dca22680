/** Claims in a repository: what they are before and after each of their facts, and after a kill in between. */
import assert from "node:assert/strict";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import { openFleets, type OpenFleets } from "../../../../../../server/services/context/open-fleets.js";
import { localOperations } from "../../../../../../server/operations/local-operations.js";
import type { SaveReport } from "../../../../../../server/storage/repository/answers/save-answers.js";
import type { FleetRepository } from "../../../../../../server/storage/repository/fleet-repository.js";
import type { Home } from "../../../../../../server/storage/repository/home.js";
import { openNodeHome } from "../../../../../../server/storage/repository/node-home.js";
import { objectsOf } from "../../../../../../shared/model/record-objects.js";
import { opaqueModelSource } from "../../../../../../shared/save/model-source.js";
import { sha256 } from "../../../../../../shared/tensor/hash.js";
import type { Hash } from "../../../../../../shared/tensor/tensor.js";

const fleet = "cars";
const engineId = sha256("engine");
const proof = { grade: "bit-exact", engineId, because: "equal" } as const;

interface Opened {
  readonly home: Home;
  readonly fleets: OpenFleets;
  readonly repository: FleetRepository;
}

describe("a claim", () => {
  let root: string;
  let device: Opened;
  let server: Opened;
  const open = async (name: string): Promise<Opened> => {
    const home = await openNodeHome(join(root, name));
    const fleets = openFleets(home);
    return { home, fleets, repository: await fleets.get(fleet, { create: true }) };
  };
  const close = async ({ fleets, home }: Opened): Promise<void> => {
    await fleets.close();
    await home.close();
  };
  /** As after a kill: what is not on the disk is gone. */
  const reopen = async (): Promise<void> => {
    await close(server);
    server = await open("server");
  };

  before(async () => {
    root = await mkdtemp(join(tmpdir(), "stemma-claim-"));
    device = await open("device");
    server = await open("server");
    await enroll("van");
  });
  after(async () => {
    await close(device);
    await close(server);
    await rm(root, { recursive: true, force: true });
  });

  async function enroll(name: string): Promise<void> {
    await server.repository.append({
      type: "enrolled",
      atMs: 1,
      device: name,
      publicKey: "k",
      tokenHash: "t",
      profile: "generic",
      lines: ["soh"],
    });
  }

  /** A version of the device; the server gets everything of it but its tensors. */
  async function claim(byte: number, name = "van"): Promise<SaveReport> {
    const source = opaqueModelSource([
      { name: "w", dtype: "U8", shape: [4], bytes: Uint8Array.of(byte, 1, 2, 3) },
    ]);
    const saved = await device.repository.save(source, { name: "soh", device: name, line: "soh" });
    const writtenBytes = await send(saved, false);
    const { versionId } = saved.summary;
    await server.repository.recordClaim(await device.repository.objects.read("record", versionId), {
      generation: 1,
      writtenBytes,
    });
    return saved;
  }

  async function send({ summary, leaves }: SaveReport, withTensors: boolean): Promise<number> {
    const pack = await server.repository.objects.begin();
    for (const { kind, id } of objectsOf(summary.record))
      await pack.put(kind, await device.repository.objects.read(kind, id));
    await pack.put("record", await device.repository.objects.read("record", summary.versionId));
    if (withTensors)
      for (const { tensor } of leaves)
        await pack.putTensor(device.repository.objects.openTensor(tensor), tensor);
    return (await pack.commit()).bytes;
  }
  const recordBytes = (versionId: Hash): Promise<Uint8Array> =>
    device.repository.objects.read("record", versionId);

  it("is not a version, is kept by collections, and is one fact however often it is reported", async () => {
    const { summary } = await claim(1);
    const { versionId } = summary;
    const { length } = server.repository.journal.head();
    await server.repository.recordClaim(await recordBytes(versionId), { generation: 1 });
    assert.equal(server.repository.journal.head().length, length);
    for (const isReopened of [false, true]) {
      if (isReopened) await reopen();
      const { repository } = server;
      assert.deepEqual([repository.versions().length, repository.claims().length], [0, 1]);
      assert.throws(() => repository.resolve(versionId), { code: "MODEL_CLAIMED" });
      assert.deepEqual((await repository.planCollection()).dead, []);
      assert.deepEqual((await repository.check()).problems, []);
    }
  });

  it("becomes a version with the proof, for which the tensors must be in the store", async () => {
    const { packBytes: earlier } = await server.repository.stats();
    const saved = await claim(2);
    const { versionId } = saved.summary;
    await assert.rejects(server.repository.proveClaim({ versionId, ...proof }), {
      code: "REFERENCE_MISSING",
    });
    assert.equal(server.repository.claim(versionId)?.ended, undefined);
    const { packBytes: withClaim } = await server.repository.stats();
    const writtenBytes = await send(saved, true);
    await reopen();
    const proved = await server.repository.proveClaim({ versionId, ...proof }, writtenBytes);
    const { packBytes } = await server.repository.stats();
    assert.ok(packBytes > withClaim && proved.storedBytes === packBytes - earlier);
    const { length } = server.repository.journal.head();
    assert.equal(proved.position, length - 1, "the position of the fact that states its tensors");
    await reopen();
    const found = server.repository.resolve(versionId);
    assert.deepEqual([found.version, found.replayed?.verdict, found.claim?.isProved], [1, "proved", true]);
    assert.equal(server.repository.claim(versionId), undefined);
    await server.repository.confirmStored(versionId);
    await assert.rejects(server.repository.proveClaim({ versionId, ...proof }), { code: "MODEL_NOT_FOUND" });
  });

  it("that is lost can be given up, and is collected then", async () => {
    await enroll("cab");
    const { versionId } = (await claim(4, "cab")).summary;
    await server.repository.endClaim({ type: "unreplayable", atMs: 5, versionId, because: "no data" });
    const operations = localOperations({ home: server.home, fleets: server.fleets, version: "test" });
    await operations.revoke({ fleet, device: "cab", evenIfClaimed: true });
    assert.equal((await operations.cancelReplay({ fleet, model: versionId })).state, "lost");
    await reopen();
    assert.equal(server.repository.claim(versionId), undefined);
    assert.deepEqual((await server.repository.check()).problems, []);
    assert.ok((await server.repository.planCollection()).dead.some(({ id }) => id === versionId));
  });

  it("that was refuted waits for its tensors, and is reported as lost without its device", async () => {
    await enroll("bus");
    const saved = await claim(3, "bus");
    const { versionId } = saved.summary;
    await server.repository.endClaim({ type: "refuted", atMs: 5, versionId, ...proof, grade: "different" });
    await reopen();
    assert.deepEqual(server.repository.claim(versionId)?.ended?.verdict, "refuted");
    assert.equal(server.repository.claim(versionId)?.isRecoverable, true);
    const operations = localOperations({ home: server.home, fleets: server.fleets, version: "test" });
    const bus = { fleet, device: "bus" };
    await assert.rejects(operations.revoke(bus), { code: "CLAIMS_OPEN" });
    await assert.rejects(operations.enroll({ ...bus, lines: ["soh"] }), { code: "CLAIMS_OPEN" });
    await operations.revoke({ ...bus, evenIfClaimed: true });
    assert.deepEqual((await operations.device(bus)).claims, { waiting: 0, wanted: 0, lost: 1 });
    assert.deepEqual(
      (await operations.replays({ fleet })).map(({ versionId: id, state }) => [id, state]).at(-1),
      [versionId, "lost"],
    );
    assert.equal(server.repository.claim(versionId)?.isRecoverable, false);
    const { problems } = await server.repository.check();
    assert.deepEqual(
      problems.map(({ what, id }) => [what, id]),
      [["claim", versionId]],
    );
    // A device that is found again: its tensors make it a version, which says what its story was worth.
    await send(saved, true);
    const recorded = await server.repository.record(await recordBytes(versionId), { generation: 1 });
    assert.deepEqual([recorded.claim?.isProved, recorded.claim?.ended?.verdict], [false, "refuted"]);
    assert.deepEqual((await server.repository.check()).problems, []);
    assert.equal(
      await server.repository.endClaim({ type: "unreplayable", atMs: 7, versionId, because: "x" }),
      undefined,
    );
  });
});

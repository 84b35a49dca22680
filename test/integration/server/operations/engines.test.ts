/** Engines of other builds: approved by a person after they ran, refused otherwise, never taken from a device. */
import assert from "node:assert/strict";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import type { ServerOperations } from "../../../../server/interface/api/server-operations.js";
import { storeNamedEngine } from "../../../../server/services/context/own-engine.js";
import { openLocalOperations } from "../../../../server/operations/local-operations.js";
import { openRepository } from "../../../../server/storage/repository/open-repository.js";
import { currentUser } from "../../../../shared/adapters/current-user.js";
import {
  decodeEngineArchive,
  encodeEngineArchive,
  engineObjectId,
  type EngineFile,
} from "../../../../shared/train/engine-archive.js";
import { ownEngine, packOwnEngine } from "../../../../shared/train/own-engine.js";
import { memoryHome } from "../storage/repository/harness.js";

const fleet = "cars";
const base64 = (archive: Uint8Array): string => Buffer.from(archive).toString("base64");

/** This build's engine with another script. */
function withScript(files: readonly EngineFile[], change: (script: string) => string): Uint8Array {
  return encodeEngineArchive(
    files.map(({ name, bytes }) => ({
      name,
      bytes: name === "engine.mjs" ? Buffer.from(change(Buffer.from(bytes).toString("utf8"))) : bytes,
    })),
  );
}

describe("engines of other builds", () => {
  let home: string;
  let operations: ServerOperations;
  let files: readonly EngineFile[];
  let other: Uint8Array;
  before(async () => {
    home = await mkdtemp(join(tmpdir(), "stemma-engines-"));
    operations = await openLocalOperations({ home });
    ({ files } = decodeEngineArchive(await packOwnEngine()));
    other = withScript(files, (script) => `${script}\n// another build\n`);
  });
  after(async () => {
    await operations.close();
    await rm(home, { recursive: true, force: true });
  });

  it("are refused where they do not run, are not what was expected, or read other jobs", async () => {
    const refusals = [
      [{ archive: base64(withScript(files, () => "process.exit(3);")) }, "ENGINE_INVALID"],
      [{ archive: base64(other), expected: (await ownEngine()).engineId }, "ENGINE_HASH_MISMATCH"],
      [
        {
          archive: base64(
            encodeEngineArchive(
              files.map((file) =>
                file.name === "engine.json" ? { ...file, bytes: Buffer.from('{"job":9}') } : file,
              ),
            ),
          ),
        },
        "ENGINE_INVALID",
      ],
      [{ archive: base64(other.subarray(0, -1)) }, "ENGINE_INVALID"],
    ] as const;
    for (const [body, code] of refusals)
      await assert.rejects(operations.approveEngine({ fleet, ...body }), { code });
    assert.deepEqual(await operations.engines({ fleet }), []);
    assert.equal(
      (await operations.approveEngine({ fleet, archive: base64(other), dryRun: true })).approved,
      false,
    );
    assert.deepEqual(await operations.engines({ fleet }), []);
  });

  it("are approved after they ran, stay through collections, and go once they are removed", async () => {
    const { engine, engineId } = await operations.approveEngine({
      fleet,
      archive: base64(other),
      because: "vans run it",
    });
    assert.equal(engine, engineObjectId(other));
    const collectNow = async (): Promise<void> => {
      await operations.collect({ fleet, ...(await operations.planCollection({ fleet })) });
    };
    await collectNow();
    const [listed] = await operations.engines({ fleet });
    assert.deepEqual(
      { ...listed, atMs: 0 },
      {
        engine,
        engineId,
        source: "approval",
        because: "vans run it",
        atMs: 0,
        by: `${currentUser()} (command)`,
        versions: 0,
        isStored: true,
      },
    );
    assert.deepEqual(await operations.removeEngine({ fleet, engine: engineId.slice(0, 12) }), []);
    assert.equal((await operations.planCollection({ fleet })).dead.length, 1);
  });
});

it("a record's engine is stored where it is this build's; another is not, whoever names it", async () => {
  const { home } = await memoryHome();
  const repository = await openRepository(home, "fleet-a");
  await storeNamedEngine(repository, "ab".repeat(32) as never);
  await storeNamedEngine(repository, undefined);
  assert.deepEqual(repository.engines(), []);
  const { object, engineId } = await ownEngine();
  for (let i = 0; i < 2; i++) await storeNamedEngine(repository, object);
  assert.deepEqual(
    repository.engines().map(({ engine, engineId: id, source, isStored }) => [engine, id, source, isStored]),
    [[object, engineId, "build", true]],
  );
  assert.equal(repository.journal.head().length, 1);
  assert.deepEqual((await repository.check()).problems, []);
  await repository.close();
});

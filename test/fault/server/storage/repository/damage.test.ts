/**
 * Damage on the disk: a typed error names what is damaged, other models are still served, and no wrong model
 * is returned.
 */
import assert from "node:assert/strict";
import { join } from "node:path";
import { test } from "node:test";
import { openHome } from "../../../../../server/storage/repository/home.js";
import { StemmaError } from "../../../../../shared/errors.js";
import { writeDurably } from "../../../../../shared/files/durable-write.js";
import type { Files } from "../../../../../shared/ports.js";
import {
  fineTuned,
  memoryHome,
  modelOf,
  openRepository,
  sameTensors,
  seededDraw,
  tensorsOf,
} from "../../../../integration/server/storage/repository/harness.js";

const folder = "/home/fleets/fleet-a/packs";

async function flip(files: Files, path: string, at: number): Promise<void> {
  const file = await files.open(path, "update");
  const byte = new Uint8Array(1);
  await file.read(byte, at);
  await file.write(Uint8Array.of(byte[0]! ^ 0x10), at);
  await file.close();
}

test("one flipped byte anywhere in a pack: every other version is recovered, the error names the damaged one, and check finds it", async (context) => {
  const seed = process.env["STEMMA_TEST_SEED"] ?? "damage";
  const rounds = process.env["STEMMA_TEST_FULL"] === "1" ? 400 : 12;
  context.diagnostic(`seed ${seed}, ${rounds} rounds`);
  const draw = seededDraw(seed);
  for (let round = 0; round < rounds; round++) {
    const { home, files, reopen } = await memoryHome();
    const repository = await openRepository(home, "fleet-a");
    const base = tensorsOf("base", 3, 4);
    const child = fineTuned(base, "child");
    const [a, b, c] = [
      (await repository.save(modelOf(base), { name: "m" })).summary,
      (await repository.save(modelOf(child), { name: "m" })).summary,
      (await repository.save(modelOf(tensorsOf("apart", 3, 4)), { name: "apart" })).summary,
    ] as const;
    await repository.close();
    await home.close();
    const names = (await files.list(folder)).filter((name) => name.endsWith(".pack"));
    const path = join(folder, names[draw(names.length)]!);
    const at = draw((await files.stat(path))!.size);
    await flip(files, path, at);
    const where = `${path} at ${at}, round ${round}`;
    const again = await reopen();
    const reopened = await openRepository(again, "fleet-a");
    let failed = 0;
    for (const [summary, tensors] of [
      [a, base],
      [b, child],
      [c, tensorsOf("apart", 3, 4)],
    ] as const) {
      try {
        assert.ok(await sameTensors(reopened, summary.versionId, tensors), `wrong model: ${where}`);
      } catch (error) {
        assert.ok(error instanceof StemmaError && error.exitStatus >= 3, `${where}: ${String(error)}`);
        failed++;
      }
    }
    const { problems } = await reopened.check();
    if (failed === 0)
      assert.ok(!problems.some(({ what }) => what.startsWith("version") || what.startsWith("tensor")), where);
    if (failed > 0) {
      assert.ok(problems.length > 0, where);
      await assert.rejects(reopened.planCollection(), { code: "COLLECTION_REFUSED" }, where);
    }
    // Damaged objects are requested again, and a new save repairs them.
    for (const [name, tensors] of [
      ["m", base],
      ["apart", tensorsOf("apart", 3, 4)],
    ] as const) {
      const { summary } = await reopened.save(modelOf(tensors), { name });
      assert.ok(await sameTensors(reopened, summary.versionId, tensors), where);
    }
    await reopened.close();
    await again.close();
  }
});

test("a damaged tensor is named, and once it has been sent again the old version is recovered too", async () => {
  const { home, files } = await memoryHome();
  const repository = await openRepository(home, "fleet-a");
  const tensors = tensorsOf("m", 2, 8);
  const { summary } = await repository.save(modelOf(tensors), { name: "m" });
  const [pack] = (await files.list(folder)).filter((name) => name.endsWith(".pack"));
  await flip(files, join(folder, pack!), 40);
  await assert.rejects(repository.recover(summary.versionId), (error: StemmaError) => {
    assert.equal(error.code, "ROOT_MISMATCH");
    assert.match(error.message, /layer000\.bias/);
    return true;
  });
  await assert.rejects(repository.confirmStored(summary.versionId), { code: "ROOT_MISMATCH" });
  assert.equal(repository.get(summary.versionId)?.state, "recorded");
  const { problems } = await repository.check();
  assert.ok(
    problems.some(({ id }) => repository.objects.stat(id as typeof summary.versionId)?.kind === "tensor"),
  );
  await repository.save(modelOf(tensors), { name: "m" });
  assert.ok(await sameTensors(repository, summary.versionId, tensors));
  assert.equal((await repository.confirmStored(summary.versionId)).state, "stored");
  await repository.close();
});

test("a journal with a changed history does not open, and opens once the original is restored", async () => {
  const { home, files, reopen } = await memoryHome();
  const repository = await openRepository(home, "fleet-a");
  for (const seed of ["a", "b", "c"]) await repository.save(modelOf(tensorsOf(seed, 1, 4)), { name: seed });
  await repository.close();
  await home.close();
  const journal = "/home/fleets/fleet-a/journal";
  const [segment] = (await files.list(journal)).filter((name) => name.endsWith(".log"));
  await flip(files, join(journal, segment!), 150);
  const again = await reopen();
  await assert.rejects(openRepository(again, "fleet-a"), { code: "JOURNAL_CORRUPT" });
  await flip(files, join(journal, segment!), 150);
  await (await openRepository(again, "fleet-a")).close();
});

test("a home of a newer format and a folder that is not a home are left unchanged", async () => {
  const { files, ports, home } = await memoryHome();
  await home.close();
  await writeDurably(files, "/home/format.json", Buffer.from('{"kind":"stemma-home","format":2}'));
  await assert.rejects(openHome("/home", ports), { code: "HOME_FORMAT_UNKNOWN" });
  await files.makeFolder("/documents");
  await writeDurably(files, "/documents/letter.txt", Buffer.from("x"));
  await assert.rejects(openHome("/documents", ports), { code: "HOME_FORMAT_UNKNOWN" });
  assert.deepEqual(await files.list("/documents"), ["letter.txt"]);
});

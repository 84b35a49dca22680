/** What a check finds in a journal that an opening does not read. */
import assert from "node:assert/strict";
import { join } from "node:path";
import { test } from "node:test";
import { memoryHome, modelOf, openRepository, tensorsOf } from "./harness.js";

const journal = "/home/fleets/fleet-a/journal";

test("an old fact that was changed on the disk is found by a check, not by an opening", async () => {
  const { home, files, reopen } = await memoryHome();
  const repository = await openRepository(home, "fleet-a");
  for (let n = 0; n < 12; n++) await repository.save(modelOf(tensorsOf(`model-${n}`, 1, 4)), { name: "m" });
  assert.deepEqual((await repository.check()).problems, []);
  await repository.close();
  await home.close();
  const path = join(journal, "0000000000000000.log");
  const bytes = await files.read(path);
  const file = await files.open(path, "update");
  await file.write(Uint8Array.of(bytes[100]! ^ 1), 100);
  await file.close();

  const again = await reopen();
  const opened = await openRepository(again, "fleet-a");
  assert.equal(opened.versions().length, 12);
  const { problems } = await opened.check();
  assert.deepEqual(
    problems.map(({ what, id }) => [what, id]),
    [["journal: JOURNAL_CORRUPT", "fleet-a"]],
  );
  assert.match(problems[0]!.message, /is damaged at entry 0/);
  await opened.close();
  await again.close();
});

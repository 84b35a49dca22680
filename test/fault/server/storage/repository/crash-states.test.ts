/**
 * A complete home (saves, retirement, collection, backup) crashes at every moment, with unsynced writes kept,
 * dropped or torn. Each state opens, everything acknowledged is recovered bit for bit, and the last finished
 * backup is complete.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import { isStemmaError } from "../../../../../shared/errors.js";
import { openHome, type HomePorts } from "../../../../../server/storage/repository/home.js";
import { openRepository } from "../../../../../server/storage/repository/open-repository.js";
import { restoreBackup } from "../../../../../server/storage/repository/backup/restore.js";
import type { Files } from "../../../../../shared/ports.js";
import type { Hash } from "../../../../../shared/tensor/tensor.js";
import { checkCrashStates, crashStateCount } from "../../../../helpers/crash-states.js";
import { manualClock, seededRandom } from "../../../../helpers/manual-clock.js";
import {
  fineTuned,
  hasUsesOfSeed,
  sameTensors,
  tensorsOf,
  unhashedModelOf,
  type NamedTensor,
  usesOfSeed,
} from "../../../../integration/server/storage/repository/harness.js";

type Mark =
  | { readonly recorded: Hash; readonly model: string }
  | { readonly retiring: Hash }
  | { readonly retired: Hash }
  | { readonly stored: Hash }
  | { readonly tagged: string }
  | { readonly backup: number }
  | { readonly opened: string };

const common = tensorsOf("common", 2, 4);
/** "b" and "c" share an engine and data; each has a checkpoint and an optimizer's state of its own. */
const hasUses = (model: string): boolean => model === "b" || model === "c";
const modelOfSeed = (seed: string): readonly NamedTensor[] => fineTuned(common, seed, 2);

function portsOn(files: Files, seed: string): HomePorts & { readonly clock: ReturnType<typeof manualClock> } {
  return {
    files,
    clock: manualClock(),
    random: seededRandom(seed),
    environment: { backend: "none" },
    indexEveryFacts: 3,
    journalBlockLevel: 1,
  };
}

async function work(files: Files, mark: (mark: Mark) => void): Promise<void> {
  const ports = portsOn(files, "work");
  const home = await openHome("/home", ports);
  mark({ opened: home.signer.publicKey });
  const repository = await openRepository(home, "fleet-a");
  const save = async (model: string, bases: readonly Hash[] = []): Promise<Hash> => {
    const { summary } = await repository.save(unhashedModelOf(modelOfSeed(model)), {
      name: "m",
      bases,
      ...(hasUses(model) ? { uses: usesOfSeed(model) } : {}),
    });
    mark({ recorded: summary.versionId, model });
    return summary.versionId;
  };
  const first = await save("a");
  const [second, third] = await Promise.all([save("b", [first]), save("c", [first]), save("b")]);
  await repository.confirmStored(second);
  mark({ stored: second });
  mark({ retiring: third });
  await repository.retire(third, "space");
  mark({ retired: third });
  const { position } = await repository.backup("/backup");
  mark({ backup: position });
  ports.clock.advance(61_000);
  const planAndCollect = async (): Promise<void> => {
    // A concurrent save may need what was planned to be removed; then nothing is removed.
    try {
      await repository.collect(await repository.planCollection());
    } catch (error) {
      if (!isStemmaError(error, "PLAN_STALE")) throw error;
    }
  };
  const [fourth] = await Promise.all([save("d", [second]), planAndCollect()]);
  await repository.tag("m", "best", fourth);
  mark({ tagged: "best" });
  mark({ retiring: first });
  await repository.retire(first, "space");
  ports.clock.advance(61_000);
  await planAndCollect();
  mark({ backup: (await repository.backup("/backup")).position });
  await save("c", [fourth]);
  await repository.close();
  await home.close();
}

/**
 * Restores the backup, or opens the home that an earlier check restored before a second crash. A fleet
 * appears in the target only when its restore is complete.
 */
async function restoredPosition(files: Files, ports: HomePorts): Promise<number> {
  if ((await files.stat("/restored/fleets/fleet-a")) === undefined)
    return (await restoreBackup("/backup", "/restored", ports))[0]!.position;
  const home = await openHome("/restored", ports);
  const repository = await openRepository(home, "fleet-a");
  assert.deepEqual((await repository.check()).problems, []);
  const restored = repository.restores().at(-1);
  await repository.close();
  await home.close();
  assert.ok(restored !== undefined, "a restored fleet has its fact");
  return restored.position;
}

/** No two processes draw the same random numbers. */
let checks = 0;

async function check(files: Files, marks: readonly Mark[]): Promise<void> {
  const ports = portsOn(files, `check ${checks++}`);
  const home = await openHome("/home", ports);
  for (const mark of marks)
    if ("opened" in mark)
      assert.equal(home.signer.publicKey, mark.opened, "the key is the one that was there first");
  const repository = await openRepository(home, "fleet-a");
  assert.deepEqual((await repository.check()).problems, []);
  const retiring = new Set(marks.flatMap((mark) => ("retiring" in mark ? [mark.retiring] : [])));
  for (const mark of marks) {
    if ("recorded" in mark) {
      const summary = repository.get(mark.recorded);
      assert.ok(summary !== undefined, `the acknowledged ${mark.model} is gone`);
      if (summary.state === "retired") assert.ok(retiring.has(mark.recorded));
      else {
        assert.ok(
          await sameTensors(repository, mark.recorded, modelOfSeed(mark.model)),
          `${mark.model} came back altered`,
        );
        if (hasUses(mark.model)) assert.ok(await hasUsesOfSeed(repository, mark.recorded, mark.model));
      }
    } else if ("retired" in mark) assert.equal(repository.get(mark.retired)?.state, "retired");
    else if ("stored" in mark) assert.notEqual(repository.get(mark.stored)?.state, "recorded");
    else if ("tagged" in mark) assert.equal(repository.resolve(`m:${mark.tagged}`).name, "m");
  }
  // Work continues in the home.
  const { summary } = await repository.save(unhashedModelOf(modelOfSeed("after")), { name: "m" });
  assert.ok(await sameTensors(repository, summary.versionId, modelOfSeed("after")));
  await repository.close();
  await home.close();
  const backedUp = Math.max(0, ...marks.map((mark) => ("backup" in mark ? mark.backup : 0)));
  if (backedUp > 0) assert.ok((await restoredPosition(files, ports)) >= backedUp);
}

test("a home recovers from a crash at any moment", async () => {
  const { states } = await checkCrashStates<Mark>({
    name: "repository",
    run: work,
    check,
    states: Math.ceil(crashStateCount() / 5),
  });
  assert.ok(states >= 1);
});

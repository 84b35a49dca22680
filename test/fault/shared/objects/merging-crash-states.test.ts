/** Small packs are merged beside saves and collections: no crash state loses what was acknowledged. */
import assert from "node:assert/strict";
import { it } from "node:test";
import type { Files } from "../../../../shared/ports.js";
import { checkCrashStates, crashStateCount } from "../../../helpers/crash-states.js";
import { checkSmall, folders, openSmall, type Ack } from "./small-repository.js";

/** No multiples of three and four: those have larger objects, and their packs are of another level. */
const smallSaves = Array.from({ length: 48 }, (_, i) => i).filter(
  (number) => number > 2 && number % 4 !== 0 && number % 3 !== 0,
);

async function work(files: Files, mark: (ack: Ack) => void): Promise<number> {
  const home = await openSmall(files, "merging");
  const save = async (number: number): Promise<void> => {
    mark({ what: "saved", save: number, position: await home.save(number) });
  };
  let merged = 0;
  for (const [i, number] of smallSaves.entries()) {
    if (i % 5 !== 4) {
      await save(number);
      continue;
    }
    await Promise.all([
      save(number),
      home.store.merging.merge({ keepFreeBytes: 0 }).then((round) => (merged += round?.packs ?? 0)),
    ]);
    mark({ what: "retiring", save: number - 1 });
    await home.retire(number - 1);
    mark({ what: "retired", save: number - 1 });
    if (i === 20) await home.collect();
  }
  await home.close();
  return merged;
}

it("loses nothing acknowledged in any crash state of merging", async () => {
  let merged = 0;
  await checkCrashStates<Ack>({
    name: "merging",
    run: async (files, mark) => {
      merged = await work(files, mark);
    },
    check: checkSmall,
    states: Math.ceil(crashStateCount() / 8),
  });
  assert.ok(merged >= 16, `only ${merged} packs were merged`);
});

it("would notice if packs were deleted before the new one's name is durable", async () => {
  await assert.rejects(
    () =>
      checkCrashStates<Ack>({
        name: "names of merged packs are not fsynced",
        run: async (files, mark) => {
          let skips = false;
          const home = await openSmall(
            {
              ...files,
              syncFolder: (path) =>
                skips && path === folders.packs ? Promise.resolve() : files.syncFolder(path),
            },
            "merging",
          );
          for (const number of smallSaves.slice(0, 18))
            mark({ what: "saved", save: number, position: await home.save(number) });
          skips = true;
          assert.notEqual(await home.store.merging.merge({ keepFreeBytes: 0 }), undefined);
        },
        check: checkSmall,
        states: 2000,
        seed: 3,
      }),
    /crash before event/,
  );
});

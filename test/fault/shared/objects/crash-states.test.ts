/**
 * Packs and journal together: after any crash every acknowledged save is recorded and complete, everything
 * recorded can be recovered, and the store opens and continues.
 */
import assert from "node:assert/strict";
import { it } from "node:test";
import type { Files } from "../../../../shared/ports.js";
import { checkCrashStates } from "../../../helpers/crash-states.js";
import { seededNumbers } from "../../../helpers/manual-clock.js";
import { checkSmall, folders, openSmall, type Ack } from "./small-repository.js";

/**
 * Files that skip the fsync of the paths for which `pretends` is true: the check must detect such a store.
 */
function pretending(files: Files, pretends: (path: string, kind: "file" | "folder") => boolean): Files {
  return {
    ...files,
    async open(path, mode) {
      const file = await files.open(path, mode);
      if (!pretends(path, "file")) return file;
      return {
        read: (target, at) => file.read(target, at),
        write: (bytes, at) => file.write(bytes, at),
        size: () => file.size(),
        truncate: (size) => file.truncate(size),
        sync: () => Promise.resolve(),
        close: () => file.close(),
      };
    },
    syncFolder: (path) => (pretends(path, "folder") ? Promise.resolve() : files.syncFolder(path)),
  };
}

async function work(files: Files, mark: (ack: Ack) => void): Promise<void> {
  const random = seededNumbers(7);
  let home = await openSmall(files, "first");
  const save = async (number: number): Promise<void> => {
    mark({ what: "saved", save: number, position: await home.save(number) });
  };
  for (let round = 0; round < 6; round++) {
    await Promise.all([0, 1, 2].map((i) => save(round * 5 + i)));
    await save(round * 5 + 3);
    for (const number of [...home.saves.keys()].filter(() => random() < 0.35)) {
      mark({ what: "retiring", save: number });
      await home.retire(number);
      mark({ what: "retired", save: number });
    }
    await Promise.all([home.collect(), save(round * 5 + 4)]);
    if (round === 3) {
      await home.close();
      home = await openSmall(files, "second");
    }
  }
  await home.collect();
}

it("loses nothing acknowledged in any crash state of packs and journal", async () => {
  await checkCrashStates<Ack>({ name: "packs and journal", run: work, check: checkSmall });
});

for (const [what, pretends] of [
  ["packs are not fsynced", (path, kind) => kind === "file" && path.startsWith(folders.packs)],
  ["names of packs are not fsynced", (path, kind) => kind === "folder" && path === folders.packs],
  ["the journal is not fsynced", (path, kind) => kind === "file" && path.endsWith(".log")],
  [
    "names of journal segments are not fsynced",
    (path, kind) => kind === "folder" && path === folders.journal,
  ],
  [
    "folders are not fsynced",
    (path, kind) => kind === "folder" && !path.startsWith(folders.packs) && !path.startsWith(folders.journal),
  ],
] as const satisfies readonly (readonly [string, (path: string, kind: "file" | "folder") => boolean])[]) {
  it(`would notice if ${what}`, async () => {
    await assert.rejects(
      () =>
        checkCrashStates<Ack>({
          name: what,
          run: (files, mark) => work(pretending(files, pretends), mark),
          check: checkSmall,
          states: 2000,
        }),
      /crash before event/,
    );
  });
}

/**
 * The child of kill.test.ts: saves, retires and collects, or merges, on the real disk until it is killed, and
 * prints what is acknowledged on stdout.
 */
import { nodeFiles } from "../../../../shared/files/node-files.js";
import { lockHome } from "../../../../shared/files/home-lock.js";
import type { Files } from "../../../../shared/ports.js";
import { packsPerMerge } from "../../../../shared/objects/pack-merging.js";
import { openSmall, type Ack } from "./small-repository.js";

type SmallRepository = Awaited<ReturnType<typeof openSmall>>;

/** Maps all paths to a real folder. */
export function below(root: string, files: Files): Files {
  const at = (path: string): string => `${root}${path}`;
  return {
    open: (path, mode) => files.open(at(path), mode),
    read: (path) => files.read(at(path)),
    stat: (path) => files.stat(at(path)),
    list: (path) => files.list(at(path)),
    makeFolder: (path) => files.makeFolder(at(path)),
    rename: (from, to) => files.rename(at(from), at(to)),
    remove: (path) => files.remove(at(path)),
    replaceLink: (target, path) => files.replaceLink(target, at(path)),
    readLink: (path) => files.readLink(at(path)),
    syncFolder: (path) => files.syncFolder(at(path)),
    freeBytes: (path) => files.freeBytes(at(path)),
  };
}

/** What the child prints: acknowledgements, and when a round of merging begins and has ended. */
export type Line = Ack | { readonly what: "merging" | "merged" };

type Say = (line: Line) => void;

async function saveAndCollect(home: SmallRepository, from: number, say: Say): Promise<void> {
  for (let number = from; ; number += 3) {
    await Promise.all(
      [0, 1].map(async (i) => {
        say({ what: "saved", save: number + i, position: await home.save(number + i) });
      }),
    );
    if (number % 2 === 0) {
      say({ what: "retiring", save: number });
      await home.retire(number);
      say({ what: "retired", save: number });
    }
    await Promise.all([
      home.collect(),
      home.save(number + 2).then((position) => {
        say({ what: "saved", save: number + 2, position });
      }),
    ]);
  }
}

/** Saves as many packs as one round merges, and merges them while others are saved and retired. */
async function saveAndMerge(home: SmallRepository, from: number, say: Say): Promise<void> {
  let next = from;
  const save = async (): Promise<void> => {
    const number = next++;
    say({ what: "saved", save: number, position: await home.save(number) });
  };
  const merge = async (): Promise<void> => {
    say({ what: "merging" });
    await home.store.merging.merge({ keepFreeBytes: 0 });
    say({ what: "merged" });
  };
  for (let round = 0; ; round++) {
    await Promise.all(Array.from({ length: packsPerMerge }, save));
    const retired = next - 1;
    say({ what: "retiring", save: retired });
    await Promise.all([merge(), save(), home.retire(retired)]);
    say({ what: "retired", save: retired });
    if (round % 3 === 2) await home.collect();
  }
}

async function main(root: string, from: number, isMerging: boolean): Promise<void> {
  await lockHome(root);
  const home = await openSmall(below(root, nodeFiles()), `child ${from}`);
  const say: Say = (line) => {
    process.stdout.write(`${JSON.stringify(line)}\n`);
  };
  await (isMerging ? saveAndMerge : saveAndCollect)(home, from, say);
}

const [, script, root, from, work] = process.argv;
if (script?.endsWith("kill-child.js") === true && root !== undefined)
  await main(root, Number(from), work === "merging");

/**
 * The child of kill.test.ts: saves, retires and collects on the real disk until it is killed, and prints
 * what is acknowledged on stdout.
 */
import { nodeFiles } from "../../../../shared/files/node-files.js";
import { lockHome } from "../../../../shared/files/home-lock.js";
import type { Files } from "../../../../shared/ports.js";
import { openSmall, type Ack } from "./small-repository.js";

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

async function main(root: string, from: number): Promise<void> {
  await lockHome(root);
  const home = await openSmall(below(root, nodeFiles()), `child ${from}`);
  const say = (ack: Ack): void => {
    process.stdout.write(`${JSON.stringify(ack)}\n`);
  };
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

const [, script, root, from] = process.argv;
if (script?.endsWith("kill-child.js") === true && root !== undefined) await main(root, Number(from));

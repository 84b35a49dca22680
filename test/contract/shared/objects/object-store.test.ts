/** The object store contract, for packs on disk, packs on memory files, and the store in memory. */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after } from "node:test";
import { memoryFiles } from "../../../helpers/files/memory-files.js";
import { nodeFiles } from "../../../../shared/files/node-files.js";
import { memoryStore } from "../../../../shared/objects/memory-store.js";
import { openPackStore } from "../../../../shared/objects/pack-store.js";
import { seededRandom } from "../../../helpers/manual-clock.js";
import { objectStoreContract } from "./object-store-contract.js";

const folder = await mkdtemp(join(tmpdir(), "stemma-objects-"));
after(() => rm(folder, { recursive: true, force: true }));
let stores = 0;

objectStoreContract("packs on node files", async (options) => {
  const path = join(folder, String(stores++), "packs");
  const open = (seed: string) => openPackStore(nodeFiles(), path, { ...options, random: seededRandom(seed) });
  return { store: await open("first"), reopen: () => open("second") };
});
objectStoreContract("packs on memory files", async (options) => {
  const files = memoryFiles();
  const open = (seed: string) =>
    openPackStore(files, "/home/packs", { ...options, random: seededRandom(seed) });
  return { store: await open("first"), reopen: () => open("second") };
});
objectStoreContract("memory", (options) =>
  Promise.resolve({ store: memoryStore({ ...options, random: seededRandom("memory") }) }),
);

/**
 * Makes a golden store of pack format 3: tensors in planes, raw ones, and low-order bytes in a low file of a tier.
 * Run it by hand for a new format number; no test runs it. expected.json lists the tensors.
 *
 *     node dist/test/vectors/make-golden-tier.js test/vectors/packs-3
 *
 * Refuses a folder that exists: existing golden packs stand for what users have on disk and never change.
 */
import { existsSync } from "node:fs";
import { mkdir, rm, writeFile } from "node:fs/promises";
import { join, resolve } from "node:path";
import { nodeFiles } from "../../shared/files/node-files.js";
import { openPackStore } from "../../shared/objects/pack-store.js";
import { folderTierFiles } from "../../shared/objects/tiers/folder-tier-files.js";
import { codedAgainst, idOfTensor, memberOf, writePack } from "../helpers/coded-tensors.js";
import { manualClock, seededRandom } from "../helpers/manual-clock.js";
import { noiseTensor } from "../helpers/related-tensors.js";

const folder = resolve(process.argv[2] ?? "");
if (process.argv[2] === undefined || existsSync(folder))
  throw new Error("Name a folder that does not exist yet.");

const base = memberOf(1, 0, [30, 40]);
const child = memberOf(1, 1, [30, 40]);
const near = memberOf(2, 0, [10, 12]);
const half = noiseTensor("F16", [60, 40], 5);
const scalar = noiseTensor("I64", [], 6);
await mkdir(folder, { recursive: true });
const files = nodeFiles({ fileMode: 0o644, folderMode: 0o755 });
const tier = { name: "cold", files: folderTierFiles(files, join(folder, "tier")) };
const store = await openPackStore(files, join(folder, "packs"), {
  clock: manualClock(),
  random: seededRandom("golden tier"),
  tiers: () => [tier],
});
await writePack(store, [
  codedAgainst(base, undefined, undefined, "planes"),
  codedAgainst(child, base, undefined, "planes"),
  codedAgainst(half, undefined, undefined, "planes"),
  near,
  scalar,
]);
const moved = await store.lowBytes.move(new Set([base, child, half].map(idOfTensor)), tier);
const tensors = [base, child, half, near, scalar].map((tensor) => {
  const id = idOfTensor(tensor);
  return { id, dtype: tensor.dtype, shape: tensor.shape, low: store.lowBytes.lowPartOf(id) ?? null };
});
await store.close();
// Disposable, and rebuilt from the packs.
await rm(join(folder, "packs", "index"), { force: true });
await writeFile(join(folder, "expected.json"), `${JSON.stringify({ moved, tensors }, undefined, 2)}\n`);

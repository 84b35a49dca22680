/**
 * Writes what the general compressors of this machine make of the small generated cases of every type, in bytes: run
 * it by hand where cases change; no test runs it. zstd and xz must be installed.
 *
 *     node dist/test/vectors/make-type-peers.js test/vectors/delta/type-peers.json
 */
import { writeFile } from "node:fs/promises";
import { shortestPeer } from "../bench/codec-types.js";
import { typeCases } from "../bench/type-cases.js";

const file = process.argv[2];
if (file === undefined) throw new Error("Name the file to write.");
const peers = [2, 16].map((rows) => ({
  rows,
  bytes: Object.fromEntries(typeCases(rows).map((one) => [one.name, shortestPeer(one)])),
}));
await writeFile(file, `${JSON.stringify(peers, undefined, 1)}\n`);

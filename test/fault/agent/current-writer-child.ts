/**
 * A writer of current models for a test that kills it: installs and activates versions in an endless loop.
 * The bytes of each version repeat its number.
 */
import { nodeClock } from "../../../shared/adapters/node-ports.js";
import { CurrentStore } from "../../../agent/current/current-store.js";
import { nodeFiles } from "../../../shared/files/node-files.js";
import { sha256 } from "../../../shared/tensor/hash.js";

const [home = "", from = "0"] = process.argv.slice(2);
const store = await CurrentStore.open(nodeFiles(), home, nodeClock());
for (let number = Number(from); ; number++) {
  const versionId = sha256(`version ${number}`);
  const filled = (byte: number, length: number): Uint8Array => new Uint8Array(length).fill(byte & 0xff);
  await store.install({ versionId, name: String(number), contentId: versionId, root: versionId }, [
    { name: "model.safetensors", chunks: [filled(number, 40_000), filled(number, 40_000)] },
    { name: "architecture.json", chunks: [filled(number, 500)] },
  ]);
  await store.activate("cam", versionId);
  process.stdout.write(`${number}\n`);
}

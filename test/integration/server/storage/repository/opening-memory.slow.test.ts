/** A fleet that needs more memory than its process may use is refused by an error, where V8 would end the process. */
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { join } from "node:path";
import { test } from "node:test";
import { promisify } from "node:util";
import type { Fact } from "../../../../../shared/journal/fact.js";
import { openNodeHome } from "../../../../../server/storage/repository/node-home.js";
import { openRepository, temporaryFolder } from "./harness.js";

const urlOf = (path: string): string =>
  new URL(`../../../../../server/storage/repository/${path}`, import.meta.url).href;
const program = `
  import { openNodeHome } from ${JSON.stringify(urlOf("node-home.js"))};
  import { openRepository } from ${JSON.stringify(urlOf("open-repository.js"))};
  const home = await openNodeHome(process.argv[1]);
  try {
    const repository = await openRepository(home, "cars");
    console.log(repository.devices().length);
    await repository.close();
  } catch (error) {
    console.log(error.code + " " + error.message);
  }
  await home.close();
`;

async function openedWith(heapMegabytes: number, home: string): Promise<string> {
  const flags = [`--max-old-space-size=${heapMegabytes}`, "--input-type=module", "--eval", program];
  const { stdout } = await promisify(execFile)(process.execPath, [...flags, home]);
  return stdout.trim();
}

test("a fleet of more devices than the heap has room for is refused, and opens with the heap that it is told", async (context) => {
  const path = join(await temporaryFolder(context), "home");
  const home = await openNodeHome(path);
  const repository = await openRepository(home, "cars");
  const devices = 30_000;
  for (let from = 0; from < devices; from += 2000)
    await repository.append(
      ...Array.from({ length: 2000 }, (_, at): Fact => ({
        type: "enrolled",
        atMs: from + at,
        device: `vehicle-${from + at}`,
        publicKey: "ab".repeat(32),
        generation: 1,
        tokenHash: "",
        profile: "generic-x64",
        lines: ["engine", "battery"],
      })),
    );
  await repository.close();
  await home.close();
  const refusal = await openedWith(48, path);
  assert.match(
    refusal,
    /^MEMORY_FULL The fleet cars cannot be opened: .* Start it with NODE_OPTIONS=--max-old-space-size=\d+/,
  );
  const [, told] = /max-old-space-size=(\d+)/.exec(refusal) ?? [];
  assert.ok(Number(told) > 48);
  assert.equal(await openedWith(512, path), String(devices));
});

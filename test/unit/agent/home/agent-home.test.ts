/** The folder of an agent belongs to one device; a damaged home.json is named as such. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { openAgentHome } from "../../../../agent/home/agent-home.js";
import { isStemmaError } from "../../../../shared/errors.js";
import { memoryFiles } from "../../../helpers/files/memory-files.js";

const v1 = { fleet: "f", device: "v1" };

test("a home is opened again by its device alone", async () => {
  const files = memoryFiles();
  await openAgentHome(files, "/home", v1);
  await openAgentHome(files, "/home", v1);
  await assert.rejects(openAgentHome(files, "/home", { ...v1, device: "v2" }), (error) =>
    isStemmaError(error, "CONFIG_INVALID"),
  );
});

test("a flipped bit in home.json is an error that names the file", async () => {
  const written = memoryFiles();
  await openAgentHome(written, "/home", v1);
  const bytes = await written.read("/home/home.json");
  for (let bit = 0; bit < bytes.length * 8; bit++) {
    const files = memoryFiles();
    await files.makeFolder("/home");
    const file = await files.open("/home/home.json", "create");
    await file.write(
      bytes.map((byte, index) => (index === bit >> 3 ? byte ^ (1 << (bit & 7)) : byte)),
      0,
    );
    await file.close();
    // White space and line ends carry nothing.
    const outcome = await openAgentHome(files, "/home", v1).catch((error: unknown) => error);
    if (outcome === undefined) assert.ok(bit >> 3 === bytes.length - 1, `bit ${bit} was not noticed`);
    else {
      assert.ok(isStemmaError(outcome, "HOME_FORMAT_UNKNOWN") || isStemmaError(outcome, "CONFIG_INVALID"));
      assert.ok(
        !outcome.message.includes("undefined/") && !outcome.message.includes("/undefined"),
        outcome.message,
      );
    }
  }
});

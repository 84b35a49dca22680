/** What the server has set on a device: durable before it applies, old or new after every crash. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { ServedSettings } from "../../../../agent/settings/served-settings.js";
import type { Files } from "../../../../shared/ports.js";
import { memoryFiles } from "../../../helpers/files/memory-files.js";

async function opened(content?: string): Promise<{ files: Files; served: ServedSettings }> {
  const files = memoryFiles();
  await files.makeFolder("/home");
  if (content !== undefined) {
    const file = await files.open("/home/settings.json", "create");
    await file.write(new TextEncoder().encode(content), 0);
    await file.close();
  }
  return { files, served: await ServedSettings.open(files, "/home") };
}

describe("settings of the server", () => {
  it("apply when they are kept, and after a start", async () => {
    const { files, served } = await opened();
    let changes = 0;
    served.onChange(() => changes++);
    assert.equal(served.trains, true);
    await served.replace({ training: "off", "report.bytesPerSecond": 5000 });
    await served.replace({ "report.bytesPerSecond": 5000, training: "off" });
    assert.equal(changes, 1);
    const again = await ServedSettings.open(files, "/home");
    assert.deepEqual([again.trains, again.logLevel, again.values], [false, undefined, served.values]);
    assert.deepEqual(
      [null, 100, 9000].map((own) => again.bytesPerSecond(own)),
      [5000, 100, 5000],
    );
  });

  it("stay as they were where the new ones are wrong or cannot be kept", async () => {
    const { served } = await opened();
    await served.replace({ training: "off" });
    for (const wrong of [{ training: "on", shell: "sh" }, [], null, { training: {} }])
      await assert.rejects(served.replace(wrong), { code: "SETTING_INVALID" });
    assert.deepEqual(served.values, { training: "off" });
  });

  it("are none where the file is not readable as settings", async () => {
    for (const content of ["", "{", "[]", '{"training":"maybe"}', '{"other":1}', " ".repeat(70_000)])
      assert.deepEqual((await opened(content)).served.values, {});
  });
});

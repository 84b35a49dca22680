/** Settings of a device: missing values have defaults, wrong values are named. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { loadConfig, parseConfig } from "../../../../agent/settings/config.js";
import { profileOfDevice } from "../../../../agent/settings/profile.js";
import { isStemmaError } from "../../../../shared/errors.js";
import { testProfile } from "../../../helpers/agent-fixtures.js";
import { memoryFiles } from "../../../helpers/files/memory-files.js";
import { writeDurably } from "../../../../shared/files/durable-write.js";

describe("the agent's settings", () => {
  it("may be missing: the lines then only receive models", async () => {
    assert.deepEqual((await loadConfig(memoryFiles(), "/home")).lines, {});
  });
  it("fill in what a line omits", () => {
    const { lines, watchSeconds } = parseConfig(
      { format: 1, lines: { cam: { recipe: "image-classify" } } },
      "x",
    );
    assert.deepEqual(lines["cam"], {
      recipe: "image-classify",
      parameters: {},
      schedule: {},
      hooks: { beforeSwitch: [], afterSwitch: [] },
      sendSamples: false,
      approach: "parameters",
    });
    assert.equal(watchSeconds, 2);
  });
  it("name another number of threads than the class of the device has", () => {
    const ofClass = testProfile();
    const { threads } = parseConfig({ format: 1, threads: 3 }, "x");
    assert.equal(profileOfDevice(ofClass, { threads }).training.threads, 3);
    assert.deepEqual(profileOfDevice(ofClass, parseConfig({ format: 1 }, "x")), ofClass);
  });
  it("name the field that is wrong, and the file", async () => {
    for (const [value, part] of [
      [{ format: 2 }, "format"],
      [{ format: 1, threads: 0 }, "threads"],
      [{ format: 1, lines: { "a.b": {} } }, "lines"],
      [{ format: 1, lines: { cam: { schedule: { everySeconds: 0 } } } }, "lines.cam.schedule.everySeconds"],
      [{ format: 1, lines: { cam: { seed: "-1" } } }, "lines.cam.seed"],
      [{ format: 1, lines: { cam: { watch: "relative" } } }, "lines.cam.watch"],
      [{ format: 1, lines: { cam: { colour: 1 } } }, "colour"],
      [{ format: 1, lines: { cam: { dataset: { reader: "mnist", hash: "12" } } } }, "lines.cam.dataset.hash"],
    ] as const)
      assert.throws(
        () => parseConfig(value, "agent.json"),
        (error) =>
          isStemmaError(error, "CONFIG_INVALID") &&
          error.message.includes(part) &&
          error.message.includes("agent.json"),
        part,
      );
    const files = memoryFiles();
    await files.makeFolder("/home");
    await writeDurably(files, "/home/agent.json", new TextEncoder().encode("{ no json"));
    await assert.rejects(
      loadConfig(files, "/home"),
      (error) => isStemmaError(error, "CONFIG_INVALID") && error.message.includes("/home/agent.json"),
    );
    await assert.rejects(
      loadConfig(files, "/home", "/home/other.json"),
      (error) => isStemmaError(error, "CONFIG_INVALID") && error.message.includes("/home/other.json"),
    );
  });
});

/** Settings of a device: missing values have defaults, wrong values are named. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { loadConfig, parseConfig } from "../../../../agent/settings/config.js";
import { profileOfDevice } from "../../../../agent/settings/profile.js";
import { witnessPolicy } from "../../../../agent/settings/witnesses.js";
import { isStemmaError } from "../../../../shared/errors.js";
import { testProfile } from "../../../helpers/agent-fixtures.js";
import { testWitness } from "../../../helpers/test-witness.js";
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
  it("pin witnesses that differ, and no more of them than there are", () => {
    const [w1, w2] = [testWitness("w1.example"), testWitness("w2.example")];
    const good = { origin: "stemma/00/cars", threshold: 2, keys: [w1.vkey, w2.vkey] };
    const policy = witnessPolicy(parseConfig({ format: 1, witnesses: good }, "x").witnesses);
    assert.deepEqual(
      policy?.witnesses.map(({ name, publicKey }) => ({ name, publicKey })),
      [w1, w2].map(({ name, publicKey }) => ({ name, publicKey })),
    );
    assert.equal(witnessPolicy(parseConfig({ format: 1 }, "x").witnesses), undefined);
    for (const [wrong, part] of [
      [{ threshold: 3 }, "witnesses.threshold"],
      [{ threshold: 0 }, "witnesses.threshold"],
      [{ keys: [] }, "witnesses.keys"],
      [{ keys: [w1.vkey, w1.vkey] }, "witnesses.keys"],
      [{ keys: [w1.vkey, w2.vkey.replace("w2", "w3")] }, "witnesses.keys"],
      [{ origin: "stemma/00/cars/restored-0123456789abcdef" }, "witnesses.origin"],
    ] as const)
      assert.throws(
        () => parseConfig({ format: 1, witnesses: { ...good, ...wrong } }, "x"),
        (error) => isStemmaError(error, "CONFIG_INVALID") && error.message.includes(part),
        part,
      );
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

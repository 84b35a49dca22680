/** Which gates a device can answer, by its settings, its model and its samples. */
import assert from "node:assert/strict";
import { it } from "node:test";
import { answerableGates, type GateSubject } from "../../../../agent/trainer/answerable-gates.js";
import { sha256 } from "../../../../shared/tensor/hash.js";

const versionId = sha256("version");

function gates(change: Partial<GateSubject>, kind = "layers") {
  const subject = {
    settings: undefined,
    outbox: { record: () => Promise.resolve({ record: { kind } }), entry: () => ({}) },
    activator: { base: () => ({ versionId, folder: "" }) },
    samples: { heldOut: 3 },
    live: "",
    ...change,
  };
  return answerableGates("cam", subject as unknown as GateSubject);
}

const dataset = (reader: string, parameters: object) =>
  ({ dataset: { reader, parameters } }) as unknown as GateSubject["settings"];

it("a device answers what its model and its samples allow", async () => {
  const can = { losses: "", outputs: "", live: "", measuredBy: "engine" };
  assert.deepEqual(await gates({}), can);
  assert.match((await gates({ activator: { base: () => undefined } })).losses, /runs nothing/);
  const opaque = await gates({}, "opaque");
  assert.match(opaque.outputs, /no architecture, and no program/);
  assert.equal(opaque.measuredBy, "nothing");
  const measure = { measure: {} } as unknown as GateSubject["settings"];
  for (const kind of ["layers", "opaque"]) {
    const measured = await gates({ settings: measure }, kind);
    assert.deepEqual([measured.losses, measured.measuredBy], ["", "program"]);
    assert.match(measured.outputs, /only where it leaves predictions/);
  }
  const without = await gates({ settings: measure, samples: { heldOut: 0 } });
  assert.equal(without.measuredBy, "nothing");
  assert.equal((await gates({}, "opaque")).live, "");
  assert.equal((await gates({ live: "it is silent" })).live, "it is silent");
  assert.match((await gates({ activator: { base: () => undefined } })).live, /runs nothing/);
  assert.match((await gates({ samples: { heldOut: 0 } })).losses, /no held-out samples/);
  assert.deepEqual(await gates({ samples: undefined, settings: dataset("battery-simulated", {}) }), can);
  const several = await gates({
    settings: dataset("samples", { targets: ["label:class:3", "box:numbers:4"] }),
  });
  assert.equal(several.outputs, "");
  assert.match(several.losses, /several targets/);
});

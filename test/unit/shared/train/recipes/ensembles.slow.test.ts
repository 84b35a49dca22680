/** An ensemble with so many steps that the engine starts workers for its members. */
import assert from "node:assert/strict";
import { it } from "node:test";
import { ensembleTrainings, job } from "./ensemble-trainings.js";

const { tables, isRepeated } = ensembleTrainings();

it("is trained by workers to the bytes of one member after the other", async () => {
  const parameters = { members: 10, epochs: 7 };
  const { result } = await isRepeated(
    true,
    job("bagging", tables.classes(), { parameters }),
    "669bdd35b91fb698",
  );
  assert.equal(result.provenance["iterations"], 10 * 7 * 72);
  assert.ok(result.measurements.length <= 130, `${result.measurements.length} measurements`);
});

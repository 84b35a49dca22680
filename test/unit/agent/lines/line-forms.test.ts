/** The form that the samples of a line need, from its settings and the model that it runs. */
import assert from "node:assert/strict";
import { it } from "node:test";
import { LineForms } from "../../../../agent/lines/line-forms.js";
import type { AgentConfig } from "../../../../agent/settings/config.js";
import { parseTargets } from "../../../../shared/train/datasets/target-form.js";
import { encodeArchitecture } from "../../../../shared/model/architecture.js";
import { memoryFiles } from "../../../helpers/files/memory-files.js";
import { tinyModel } from "../../../helpers/agent-fixtures.js";
import { foldFacts, id, receipt, saved } from "../outbox/facts.js";

const line = "cam";

async function formOf(
  parameters: Readonly<Record<string, unknown>>,
  runs: boolean,
  reader = "samples",
): Promise<unknown> {
  const files = memoryFiles();
  await files.makeFolder("/versions/1");
  const file = await files.open("/versions/1/architecture.json", "create");
  await file.write(encodeArchitecture(tinyModel().architecture), 0);
  const facts = [
    saved(1),
    receipt(1, "released"),
    { type: "activated", atMs: 0, versionId: id(1), line, clockErrorMs: null, session: 1 } as const,
  ];
  const forms = new LineForms({
    files,
    config: { lines: { [line]: { dataset: { reader, parameters } } } } as unknown as AgentConfig,
    outbox: { state: foldFacts(runs ? facts : []) },
    current: { folderOf: () => "/versions/1" },
  });
  return await forms.of(line);
}

it("takes the shape from the model, and targets from the settings where they declare some", async () => {
  const targets = parseTargets(["wear:number", "mode:class:3"]);
  assert.deepEqual(await formOf({}, true), { shape: [4], targetSize: 2 });
  assert.deepEqual(await formOf({ targets: "wear:number,mode:class:3" }, true), { shape: [4], targets });
  assert.deepEqual(await formOf({ targets: ["wear:number", "mode:class:3"] }, false), { targets });
  assert.deepEqual(await formOf({ task: "classification", classes: 3 }, false), {
    targetSize: 1,
    classes: 3,
  });
});

it("leaves parameters of other readers alone: the columns of a table are no declarations", async () => {
  assert.deepEqual(await formOf({ targets: "sum", task: "classification" }, true, "csv"), {
    shape: [4],
    targetSize: 2,
  });
  assert.deepEqual(await formOf({ targets: "sum" }, false, "csv"), {});
});

/** Stories through a hub: redacted ones stay redacted, and with its samples a training is proved elsewhere. */
import assert from "node:assert/strict";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import { copyBundle, type End } from "../../../../../server/cli/repository/copy-bundle.js";
import { openLocalOperations } from "../../../../../server/operations/local-operations.js";
import { exampleTable } from "../../../../helpers/example-table.js";

const fleet = "local";

describe("stories through a hub", () => {
  let folder: string;
  const opened: End[] = [];
  const home = async (name: string): Promise<End> => {
    const end = { operations: await openLocalOperations({ home: join(folder, name) }), fleet };
    opened.push(end);
    return end;
  };
  const copy = (source: End, target: End, model: string, withData = false): ReturnType<typeof copyBundle> =>
    copyBundle(source, target, {
      asked: { models: [model], withData },
      statement: {},
      signal: new AbortController().signal,
      onBytes: () => undefined,
    });
  let source: End;

  before(async () => {
    folder = await mkdtemp(join(tmpdir(), "stemma-hub-stories-"));
    source = await home("source");
    const location = join(folder, "table.csv");
    await writeFile(location, exampleTable());
    const parameters = { task: "classification", ignored: "sum,odd,large", scaling: "standard" };
    await source.operations.addDataset({ fleet, name: "words", kind: "csv", location, parameters });
    await source.operations.pushDataset({ fleet, name: "words" });
    for (const name of ["open", "hidden"])
      await source.operations.train({
        fleet,
        name,
        recipe: "logistic-regression",
        data: "words",
        parameters: { epochs: name.length },
        seed: "7",
      });
    await source.operations.redact({ fleet, model: "hidden", because: "a test" });
  });
  after(async () => {
    for (const { operations } of opened) await operations.close();
    await rm(folder, { recursive: true, force: true });
  });

  it("leaves a redacted story redacted, and says so", async () => {
    const target = await home("redacted");
    const { manifest } = await copy(source, target, "hidden");
    assert.equal(manifest.redacted.length, 1);
    const { provenance } = await target.operations.model({ fleet, model: "hidden" });
    const { parameters } = provenance as { readonly parameters: Record<string, unknown> };
    assert.deepEqual(Object.keys(parameters), ["redacted"]);
    const { root } = await source.operations.verify({ fleet, model: "hidden" });
    assert.equal((await target.operations.verify({ fleet, model: "hidden" })).root, root);
    assert.equal((await copy(source, target, "hidden")).report.alreadyHere, 1);
  });

  it("brings the samples of a training only where it is asked to; then a replay proves it", async () => {
    const without = await home("without");
    assert.ok((await copy(source, without, "open")).manifest.withheld.data > 0);
    const { verdict, reason } = await without.operations.replay({ fleet, model: "open" });
    assert.deepEqual([verdict, reason], ["unreplayable", "data-missing"]);
    const target = await home("with");
    assert.equal((await copy(source, target, "open", true)).manifest.withheld.data, 0);
    const proved = await target.operations.replay({ fleet, model: "open" });
    assert.deepEqual([proved.verdict, proved.grade], ["proved", "bit-exact"], proved.text);
  });
});

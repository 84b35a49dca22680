/** The five bugs that MERIT's authors found by replaying their own models (MERIT 2023, section 7.1; ME13). */
import assert from "node:assert/strict";
import { mkdir, mkdtemp, rename, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, it, mock } from "node:test";
import type { ServerOperations } from "../../../../../server/interface/api/server-operations.js";
import { openLocalOperations } from "../../../../../server/operations/local-operations.js";
import { nodeFiles } from "../../../../../shared/files/node-files.js";
import type { Hash } from "../../../../../shared/tensor/tensor.js";
import { fuseActivations } from "../../../../../shared/train/backends/fused-layers.js";
import { startWasmBackend } from "../../../../../shared/train/backends/wasm.js";
import { runTraining } from "../../../../../shared/train/run-training.js";
import type { TrainingJob } from "../../../../../shared/train/training.js";
import { exactnessCases, jobOf, writeExampleData } from "../../../../bench/exactness-cases.js";
import { exampleTable } from "../../../../helpers/example-table.js";

const fleet = "local";
let folder: string;
let operations: ServerOperations;
before(async () => {
  folder = await mkdtemp(join(tmpdir(), "stemma-reproduction-"));
  operations = await openLocalOperations({ home: join(folder, "home") });
  await mkdir(join(folder, "tables"));
  await writeFile(join(folder, "tables", "table.csv"), exampleTable());
});
after(async () => {
  await operations.close();
  await rm(folder, { recursive: true, force: true });
});

async function addTable(
  name: string,
  parameters: Record<string, string>,
  location = join(folder, "tables", "table.csv"),
): Promise<string> {
  await operations.addDataset({ fleet, name, kind: "csv", location, parameters });
  return name;
}

async function train(name: string, recipe: string, data: string): Promise<string> {
  const parameters = { epochs: 2 };
  const { summary } = await operations.train({ fleet, name, recipe, data, parameters, seed: "5" });
  return summary.record.root;
}

async function openedOf(model: string): Promise<Record<string, unknown>> {
  const { provenance } = await operations.model({ fleet, model });
  return provenance as Record<string, unknown>;
}

async function isProved(model: string): Promise<void> {
  const { verdict, grade, text } = await operations.replay({ fleet, model });
  assert.deepEqual([verdict, grade], ["proved", "bit-exact"], `${model}: ${text}`);
}

describe("the bugs that MERIT found by replays", () => {
  const regression = { targets: "sum,large", ignored: "class,odd", scaling: "standard" };

  it("1: outputs belong to their names whatever order a map of names had", async () => {
    const other = { scaling: "standard", ignored: "odd,class", targets: "large,sum" };
    const roots = [
      await train("ordered", "linear-regression", await addTable("ordered", regression)),
      await train("other", "linear-regression", await addTable("other", other)),
    ];
    assert.equal(roots[0], roots[1]);
    for (const model of ["ordered", "other"]) {
      const [data] = (await openedOf(model))["data"] as [{ columns: { name: string; role: string }[] }];
      const targets = data.columns.filter(({ role }) => role === "target").map(({ name }) => name);
      assert.deepEqual(targets, ["sum", "large"], "in the order of the outputs");
      await isProved(model);
    }
  });

  it("2: the random state that is recorded is the one that was used, also with others in between", async () => {
    await addTable("words", { task: "classification", ignored: "sum,odd,large", scaling: "standard" });
    await addTable("labels", { task: "multi-label", targets: "odd,large", ignored: "sum,class" });
    const alone = await train("alone", "logistic-regression", "words");
    const between = await Promise.all([
      train("between", "logistic-regression", "words"),
      train("labels", "multi-label", "labels"),
      train("sums", "linear-regression", "ordered"),
    ]);
    assert.equal(between[0], alone);
    assert.deepEqual((await openedOf("between"))["random"], (await openedOf("alone"))["random"]);
    for (const model of ["between", "labels", "sums"]) await isProved(model);
  });

  it("3: a path with . and .. is the file that it names, on both sides of a comparison", async () => {
    const spelled = `${folder}/tables/../tables/./table.csv`;
    await train("spelled", "linear-regression", await addTable("spelled", regression, spelled));
    const plain = (await operations.datasets({ fleet })).find(({ name }) => name === "ordered");
    const found = (await operations.datasets({ fleet })).find(({ name }) => name === "spelled");
    assert.deepEqual([found?.location, found?.hash], [plain?.location, plain?.hash]);
    await isProved("spelled");
  });

  it("4: a table is in the record whole: bytes, format, columns and what was done to them", async () => {
    const [data] = (await openedOf("ordered"))["data"] as [Record<string, unknown>];
    for (const member of ["reader", "format", "columns", "transformations", "split", "samples"])
      assert.ok(data[member] !== undefined, member);
    const { dataHashes } = (await operations.model({ fleet, model: "ordered" })).provenance as {
      dataHashes: string[];
    };
    assert.deepEqual(dataHashes, [
      (await operations.datasets({ fleet })).find(({ name }) => name === "ordered")?.hash,
    ]);
    const [here, elsewhere] = [join(folder, "tables"), join(folder, "elsewhere")];
    await rename(here, elsewhere);
    await mkdir(here);
    await writeFile(join(here, "table.csv"), exampleTable().replace("\n0,", "\n1,"));
    const { verdict, reason } = await operations.replay({ fleet, model: "ordered" });
    assert.deepEqual([verdict, reason], ["unreplayable", "data-missing"], "never trained on another table");
    await addTable("moved", regression, join(elsewhere, "table.csv"));
    await isProved("ordered");
  });

  it("5: no recipe takes random numbers from a generator that nobody recorded", async () => {
    await writeExampleData(folder);
    const backend = await startWasmBackend();
    const bytesWith = async (job: TrainingJob, constant: number): Promise<Buffer> => {
      const random = mock.method(Math, "random", () => constant);
      try {
        const { model } = await runTraining(job, undefined, {
          tf: backend.tf,
          files: nodeFiles(),
          monotonic: () => performance.now(),
          engine: "0".repeat(64) as Hash,
          backend: { backend: "wasm", reason: "test" },
          environment: {},
          fuseActivations,
        });
        return Buffer.concat(model.tensors.map(({ bytes }) => bytes));
      } finally {
        random.mock.restore();
      }
    };
    try {
      for (const each of exactnessCases(folder).filter(({ startsFrom }) => startsFrom === undefined)) {
        const job = jobOf({ ...each, parameters: { ...each.parameters, epochs: 1 } });
        assert.ok((await bytesWith(job, 0.1)).equals(await bytesWith(job, 0.9)), each.recipe);
      }
    } finally {
      backend.close();
    }
  });
});

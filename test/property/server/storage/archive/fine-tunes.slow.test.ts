/**
 * The fine-tunes in the data folder as a fleet: how little storage they take within each budget. Each is
 * recovered byte for byte.
 */
import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { join, resolve } from "node:path";
import { test } from "node:test";
import { openNodeHome } from "../../../../../server/storage/repository/node-home.js";
import { openRepository } from "../../../../../server/storage/repository/open-repository.js";
import { fileOfBytes } from "../../../../../shared/tensor/safetensors.js";
import { modelSourceOfSafetensors } from "../../../../../shared/save/model-source.js";
import { tensorOfSource, type Hash } from "../../../../../shared/tensor/tensor.js";
import { applyToFleet, planFleet } from "../../../../helpers/archive-fleet.js";
import {
  recoveredTensors,
  temporaryFolder,
} from "../../../../integration/server/storage/repository/harness.js";

const folder = join(resolve(process.env["STEMMA_DATA"] ?? "../shared/data"), "fine-tunes");
const skip = existsSync(join(folder, "lstm-base.safetensors"))
  ? false
  : `no fine-tunes below ${folder}; set STEMMA_DATA`;
const names = [
  "lstm-base",
  "lstm-sgd1e-3-10",
  "lstm-sgd1e-3-100",
  "lstm-sgd1e-3-200",
  "lstm-adam1e-4-100",
  "mnv2-base",
  "mnv2-sgd1e-3-100",
  "mnv2-adam1e-4-100",
];

/**
 * Recreation cost as a multiple of everything stored for speed, and the share of the tensors' bytes that is then
 * enough. Uses the rates of a slow disk, so that the shares are the same everywhere: 0.005 µs per byte read,
 * 0.006 µs per number decoded. The tightest and the widest budget by default.
 */
const budgets = (
  [
    [1.6, 0.75],
    [2, 0.705],
    [3, 0.685],
    [null, 0.68],
  ] as const
).filter(([ratio]) => process.env["STEMMA_TEST_FULL"] === "1" || ratio === 1.6 || ratio === null);

test(
  "real fine-tunes are stored as compactly as each budget permits, and recovered byte for byte",
  { skip },
  async (context) => {
    const home = await openNodeHome(join(await temporaryFolder(context), "home"));
    const repository = await openRepository(home, "fleet-a");
    const ids = new Map<string, Hash>();
    const bytes = new Map<string, Buffer>();
    for (const name of names) {
      const file = await readFile(join(folder, `${name}.safetensors`));
      const model = await modelSourceOfSafetensors(fileOfBytes(file), name);
      const base = ids.get(`${name.split("-")[0]!}-base`);
      ids.set(
        name,
        (await repository.save(model, { name, ...(base === undefined ? {} : { bases: [base] }) })).summary
          .versionId,
      );
      for (const [at, source] of model.sources.entries())
        bytes.set(`${name}/${model.names.leaves[at]!}`, Buffer.from((await tensorOfSource(source)).bytes));
    }
    for (const [ratio, share] of budgets) {
      const report = await applyToFleet(
        repository,
        await planFleet(repository, { ratio, timeLimitMs: 1500 }),
      );
      assert.deepEqual([report.stopped, report.left, report.failed], [null, 0, []]);
      const reached = report.bytesReached / 31_475_952;
      context.diagnostic(
        `${ratio ?? "no"} budget: ${report.bytesReached} bytes, ${(100 * reached).toFixed(2)} % of the tensors`,
      );
      assert.ok(reached <= share, `${reached} of the tensors' bytes at ${ratio}`);
    }
    for (const name of names)
      for (const tensor of await recoveredTensors(repository, ids.get(name)!))
        assert.equal(
          Buffer.compare(tensor.bytes, bytes.get(`${name}/${tensor.name}`)!),
          0,
          `${name} ${tensor.name}`,
        );
    assert.deepEqual((await repository.check()).problems, []);
    await repository.close();
    await home.close();
  },
);

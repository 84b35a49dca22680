/** NASA's battery files: read in each of their forms, refused with the line where they are malformed. */
import assert from "node:assert/strict";
import { join } from "node:path";
import { describe, it } from "node:test";
import { nodeFiles } from "../../../../../shared/files/node-files.js";
import { type DischargeCycle } from "../../../../../shared/train/datasets/battery-windows.js";
import { parseDischargeCsv } from "../../../../../shared/train/datasets/nasa-battery.js";
import { loadDataset } from "../../../../../shared/train/datasets/registry.js";
import { dataFolder, refusal, skipWithout } from "./dataset-fixtures.js";

describe("NASA's files", () => {
  const header = "循环次数,平均放电电压,平均放电温度,等压降放电时间,容量";
  const parse = (text: string): DischargeCycle[] => parseDischargeCsv(Buffer.from(text), "B0005.csv");
  it("are read with their header in each of its forms", () => {
    const row = { cycle: 1, meanVoltage: 3.5, meanTemperature: 32.5, fallSeconds: 1622.625, capacity: 1.85 };
    for (const form of [header, header.replace("时间", "时间（3.8V-3.5V）")])
      assert.deepEqual(parse(`${form}\r\n1,3.5,32.5,1622.625,1.85\r\n`), [row]);
    const gbk = Buffer.concat([
      Buffer.from(
        "d1adbbb7b4cecafd2cc6bdbef9b7c5b5e7b5e7d1b92cc6bdbef9b7c5b5e7cec2b6c82cb5c8d1b9bdb5b7c5b5e7cab1bce42cc8ddc1bf",
        "hex",
      ),
      Buffer.from("\n1,3.5,32.5,1622.625,1.85"),
    ]);
    assert.deepEqual(parseDischargeCsv(gbk, "B0006.csv"), [row]);
  });
  it("are refused when they are malformed, naming the line", () => {
    for (const [text, line] of [
      ["", 1],
      ["cycle,voltage\n1,2", 1],
      [`${header}x\n1,1,1,1,1`, 1],
      [`${header}\n1,2,3`, 2],
      [`${header}\n1,2,3,4,x`, 2],
      [`${header}\n1,2,3,4,NaN`, 2],
      [`${header}\n1,2,3,4,5\n1,2,3,4,5`, 3],
      [`${header}\n1,2,3,4,5\n\n3,2,3,4,5`, 3],
      [`${header}\n1.5,2,3,4,5`, 2],
      [`${header}\n1,2,3,4,-5`, 2],
      [`${header}\n1,2,3,4,1e999`, 2],
    ] as const) {
      assert.throws(
        () => parse(text),
        (error: unknown) =>
          refusal("DATASET_MALFORMED")(error) &&
          error instanceof Error &&
          error.message.includes(`line ${line}:`),
        text,
      );
    }
    assert.throws(
      () => parseDischargeCsv(new Uint8Array(17 * 1024 * 1024), "big.csv"),
      refusal("DATASET_MALFORMED"),
    );
  });
  it("are all four read where they are", { skip: skipWithout("nasa-battery") }, async () => {
    const location = join(dataFolder, "nasa-battery");
    for (const [cell, count] of [
      ["B0005", 168],
      ["B0006", 168],
      ["B0007", 168],
      ["B0018", 132],
    ] as const)
      assert.equal(
        parseDischargeCsv(await nodeFiles().read(join(location, `${cell}.csv`)), cell).length,
        count,
      );
    const { set } = await loadDataset(
      { reader: "nasa-battery", location, parameters: { cells: ["B0005", "B0006"] } },
      nodeFiles(),
    );
    assert.deepEqual([set.train.count, set.validation.count, set.heldOut.count], [184, 32, 66]);
  });
});

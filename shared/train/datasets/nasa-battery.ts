/**
 * NASA's ageing lithium-ion cells (B0005, B0006, B0007, B0018): one CSV file per cell with one row per
 * discharge. The header is in Chinese: cycle number, mean discharge voltage (V), mean discharge temperature
 * (°C), seconds of the fall from 3.8 V to 3.5 V, capacity (Ah).
 */
import { createHash } from "node:crypto";
import { join } from "node:path";
import { StemmaError } from "../../errors.js";
import { batterySet, windowOptions, type DischargeCycle } from "./battery-windows.js";
import type { DatasetReader } from "./dataset.js";
import { ParameterReader } from "./sample-set.js";

const header = "循环次数,平均放电电压,平均放电温度,等压降放电时间,容量";
/**
 * The header differs between the files: B0006 is in GBK, B0007 and B0018 add the voltages to the fourth
 * column's name. It is compared as bytes, so that no decoder for GBK is needed.
 */
const headerForms = [
  Buffer.from(header, "utf8"),
  Buffer.from(header.replace("时间", "时间（3.8V-3.5V）"), "utf8"),
  Buffer.from(
    "d1adbbb7b4cecafd2cc6bdbef9b7c5b5e7b5e7d1b92cc6bdbef9b7c5b5e7cec2b6c82cb5c8d1b9bdb5b7c5b5e7cab1bce42cc8ddc1bf",
    "hex",
  ),
];
const maxFileBytes = 16 * 1024 * 1024;
const maxRows = 100_000;
const numberPattern = /^-?[0-9]{1,12}(\.[0-9]{1,18})?([eE][-+]?[0-9]{1,3})?$/;

/**
 * Parses one cell's file.
 * @param where names the file in error messages
 * @throws DATASET_MALFORMED naming file and line
 */
export function parseDischargeCsv(bytes: Uint8Array, where: string): DischargeCycle[] {
  const refuse = (line: number, problem: string): never => {
    throw new StemmaError(
      "DATASET_MALFORMED",
      `${where}, line ${line}: ${problem}. Replace the file by the original one.`,
      { file: where, line },
    );
  };
  if (bytes.length > maxFileBytes) refuse(1, `the file has ${bytes.length} bytes, more than ${maxFileBytes}`);
  const form = headerForms.find(
    (each) =>
      each.equals(bytes.subarray(0, each.length)) && (bytes[each.length] === 10 || bytes[each.length] === 13),
  );
  if (form === undefined) return refuse(1, `the header is not "${header}" or one of its variants`);
  // All rows are ASCII numbers, so latin1 decodes them without checks.
  const lines = [
    "",
    ...Buffer.from(bytes.subarray(form.length))
      .toString("latin1")
      .replace(/^\r?\n/, "")
      .split(/\r?\n/),
  ];
  while (lines.length > 1 && lines.at(-1) === "") lines.pop();
  if (lines.length - 1 > maxRows) refuse(maxRows + 1, `there are more than ${maxRows} rows`);
  let previousCycle = 0;
  return lines.slice(1).map((line, index) => {
    const fields = line.split(",");
    if (fields.length !== 5 || !fields.every((field) => numberPattern.test(field)))
      refuse(index + 2, `"${line.slice(0, 80)}" is not five numbers`);
    const [cycle, meanVoltage, meanTemperature, fallSeconds, capacity] = fields.map(Number) as [
      number,
      number,
      number,
      number,
      number,
    ];
    if (!Number.isInteger(cycle) || cycle <= previousCycle)
      refuse(index + 2, `the cycle ${cycle} does not follow ${previousCycle}`);
    if (!(capacity > 0 && capacity < 100))
      refuse(index + 2, `a capacity of ${capacity} Ah is not possible for such a cell`);
    previousCycle = cycle;
    return { cycle, meanVoltage, meanTemperature, fallSeconds, capacity };
  });
}

/** Parameters: `cells` (names, default B0005 and B0006), and those of windowOptions. */
export const nasaBattery: DatasetReader = {
  name: "nasa-battery",
  needsLocation: true,
  async read(reference, files) {
    const parameters = new ParameterReader("nasa-battery", reference.parameters);
    const cells = parameters.texts("cells", ["B0005", "B0006"], /^B[0-9]{4}$/, 64);
    const options = windowOptions(parameters);
    parameters.end();
    const sources: Record<string, unknown>[] = [];
    const tables: DischargeCycle[][] = [];
    for (const cell of cells) {
      const path = join(reference.location ?? ".", `${cell}.csv`);
      const bytes = await files.read(path);
      tables.push(parseDischargeCsv(bytes, path));
      sources.push({
        file: `${cell}.csv`,
        bytes: bytes.length,
        sha256: createHash("sha256").update(bytes).digest("hex"),
      });
    }
    return batterySet(tables, options, {
      reader: "nasa-battery",
      location: reference.location ?? null,
      format: "CSV, UTF-8 or GBK, comma, one header line",
      header: header.split(","),
      sources,
    });
  },
};

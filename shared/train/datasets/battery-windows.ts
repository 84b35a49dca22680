/**
 * Makes samples for the state of health from discharge cycles: windows of consecutive cycles of one cell,
 * split by time. The inputs are what a vehicle can measure while driving; the target is the capacity, which
 * takes a full discharge in a workshop. Pure; both battery readers use it.
 */
import type { SampleSet } from "./dataset.js";
import { checkedSet, partOf, splitByTime, type ParameterReader, type Row } from "./sample-set.js";

/** The measurements of one discharge cycle. */
export interface DischargeCycle {
  readonly cycle: number;
  /** The mean voltage in volts. */
  readonly meanVoltage: number;
  /** The mean temperature in °C. */
  readonly meanTemperature: number;
  /** Seconds in which the voltage falls from 3.8 V to 3.5 V. */
  readonly fallSeconds: number;
  /** The capacity in Ah. */
  readonly capacity: number;
}

/** A new cell's capacity; the state of health is capacity / 2.0 Ah. */
const nominalCapacityAh = 2.0;

/** Fixed numbers that scale inputs to about −1 … 1, so that no statistic of one part leaks into another. */
const scaling = [
  { column: "meanVoltage", centre: 3.5, scale: 10 },
  { column: "meanTemperature", centre: 32, scale: 0.2 },
  { column: "fallSeconds", centre: 1200, scale: 0.002 },
] as const;
const batteryFeatures = scaling.length;

interface WindowOptions {
  /** The cycles per window. */
  readonly window: number;
  readonly heldOutThousandths: number;
  readonly validationThousandths: number;
}

/** The parameters of all battery readers: `window`, `heldOutThousandths`, `validationThousandths`. */
export function windowOptions(parameters: ParameterReader): WindowOptions {
  return {
    window: parameters.whole("window", 10, 1, 512),
    heldOutThousandths: parameters.whole("heldOutThousandths", 250, 1, 900),
    validationThousandths: parameters.whole("validationThousandths", 150, 1, 900),
  };
}

function windowsOf(cycles: readonly DischargeCycle[], window: number): Row[] {
  const rows: Row[] = [];
  for (let end = window; end <= cycles.length; end++) {
    const input = new Float32Array(window * batteryFeatures);
    cycles.slice(end - window, end).forEach((cycle, step) => {
      scaling.forEach(({ column, centre, scale }, feature) => {
        input[step * batteryFeatures + feature] = (cycle[column] - centre) * scale;
      });
    });
    const last = cycles[end - 1] as DischargeCycle;
    rows.push({ input, target: [Math.fround(last.capacity / nominalCapacityAh)] });
  }
  return rows;
}

/**
 * Makes windows of each cell separately; each window is completely in one part. Inputs are [window, 3],
 * targets the state of health as a fraction.
 * @throws DATASET_EMPTY when a part has fewer cycles than a window
 */
export function batterySet(
  cells: readonly (readonly DischargeCycle[])[],
  options: WindowOptions,
  description: Readonly<Record<string, unknown>>,
): SampleSet {
  const parts: { train: Row[]; validation: Row[]; heldOut: Row[] } = {
    train: [],
    validation: [],
    heldOut: [],
  };
  for (const cycles of cells) {
    const { trainEnd, validationEnd } = splitByTime(
      cycles.length,
      options.heldOutThousandths,
      options.validationThousandths,
    );
    parts.train.push(...windowsOf(cycles.slice(0, trainEnd), options.window));
    parts.validation.push(...windowsOf(cycles.slice(trainEnd, validationEnd), options.window));
    parts.heldOut.push(...windowsOf(cycles.slice(validationEnd), options.window));
  }
  const length = options.window * batteryFeatures;
  return checkedSet({
    task: "regression",
    inputShape: [options.window, batteryFeatures],
    targetSize: 1,
    classes: 0,
    train: partOf(parts.train, length, 1),
    validation: partOf(parts.validation, length, 1),
    heldOut: partOf(parts.heldOut, length, 1),
    description: {
      ...description,
      columns: [
        ...scaling.map(({ column }) => ({ name: column, role: "input" })),
        { name: "capacity", role: "target" },
      ],
      transformations: [
        ...scaling.map(({ column, centre, scale }) => `${column} → (${column} − ${centre}) × ${scale}`),
        `target = capacity / ${nominalCapacityAh} Ah`,
        `windows of ${options.window} cycles`,
      ],
      split: {
        by: "time, each cell by itself",
        validationThousandths: options.validationThousandths,
        heldOutThousandths: options.heldOutThousandths,
      },
    },
  });
}

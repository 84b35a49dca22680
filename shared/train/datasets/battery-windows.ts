/**
 * From discharge cycles to samples for state of health: windows of consecutive cycles of one cell, split
 * by time. What a vehicle can measure on the way goes in; capacity, which takes a full discharge in a
 * workshop, is what is predicted. Pure; both battery readers use it.
 */
import type { SampleSet } from "./dataset.js";
import { checkedSet, partOf, splitByTime, type ParameterReader, type Row } from "./sample-set.js";

/** One discharge cycle. Volts, degrees Celsius, seconds from 3.8 V to 3.5 V, ampere-hours. */
export interface DischargeCycle {
  readonly cycle: number;
  readonly meanVoltage: number;
  readonly meanTemperature: number;
  readonly fallSeconds: number;
  readonly capacity: number;
}

/** A new cell's capacity; state of health = capacity / 2.0 Ah. */
export const nominalCapacityAh = 2.0;

/**
 * Inputs are brought near −1 … 1 by fixed numbers, so that no statistic of a data set leaks into another's.
 */
const scaling = [
  { column: "meanVoltage", centre: 3.5, scale: 10 },
  { column: "meanTemperature", centre: 32, scale: 0.2 },
  { column: "fallSeconds", centre: 1200, scale: 0.002 },
] as const;
export const batteryFeatures = scaling.length;

export interface WindowOptions {
  readonly window: number;
  readonly heldOutThousandths: number;
  readonly validationThousandths: number;
}

/** The parameters that all battery readers share. */
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
 * Windows of each cell by itself; a window lies wholly in one part, none crosses a border.
 * Inputs [window, 3], targets state of health as a fraction of 1.
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

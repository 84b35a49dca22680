/**
 * Simulates ageing cells physically, for use without measured data. An equivalent circuit (open-circuit voltage by
 * state of charge, ohmic resistance, one RC pair, self-heating) is discharged by a current profile once per cycle,
 * while capacity and resistance age. Laboratory cells differ only slightly from each other. Each vehicle has its own
 * cell, climate, driving style and sensor errors, so a model from the laboratory is wrong by some percentage points on
 * it. All arithmetic is + − × ÷ and square roots in float64, so a seed gives the same cell on every machine.
 */
import { Streams, type Stream } from "../../random/streams.js";
import { batterySet, windowOptions, type DischargeCycle } from "./battery-windows.js";
import type { DatasetReader } from "./dataset.js";
import { ParameterReader } from "./sample-set.js";

/**
 * Open-circuit voltage at 0, 10, … 100 % of charge (lithium nickel manganese cobalt oxide against graphite).
 */
const openCircuit = [2.95, 3.38, 3.5, 3.56, 3.6, 3.65, 3.72, 3.82, 3.92, 4.04, 4.18] as const;
const stepSeconds = 10;
const cutOffVolts = 2.7;
const ratedAmperes = 2;

interface CellParameters {
  /** Ah of the new cell. */
  readonly capacity: number;
  /** Ohm of the new cell. */
  readonly resistance: number;
  /** Fraction of the capacity lost over 168 cycles with the square root of the cycles. */
  readonly fadeRoot: number;
  /** Fraction of the capacity lost over 168 cycles linearly. */
  readonly fadeLinear: number;
  /** Resistance gained over 168 cycles, as a fraction of the new cell's. */
  readonly resistanceGrowth: number;
  /** The ambient temperature in °C. */
  readonly ambient: number;
  /** °C above ambient per watt in the steady state. */
  readonly heating: number;
  /** Current per step in rated amperes, repeated until the cell is empty. */
  readonly profile: readonly number[];
  /** Volts that the sensor adds. */
  readonly voltageOffset: number;
  /** °C that the sensor adds. */
  readonly temperatureOffset: number;
}

function between(stream: Stream, low: number, high: number): number {
  return low + (high - low) * stream.uniform();
}

/** A laboratory cell: constant current, 24 °C, small differences of manufacture. */
function laboratoryCell(stream: Stream): CellParameters {
  return {
    capacity: between(stream, 1.86, 1.98),
    resistance: between(stream, 0.062, 0.074),
    fadeRoot: between(stream, 0.1, 0.15),
    fadeLinear: between(stream, 0.06, 0.12),
    resistanceGrowth: between(stream, 0.3, 0.5),
    ambient: between(stream, 23.5, 24.5),
    heating: between(stream, 26, 30),
    profile: [1],
    voltageOffset: 0,
    temperatureOffset: 0,
  };
}

/**
 * A vehicle's cell: bus bars and connectors add resistance, long sensor cables lose voltage, the pack is
 * cooled and driven in stop-and-go traffic.
 */
function vehicleCell(stream: Stream): CellParameters {
  const profile = Array.from({ length: 9 }, () => {
    // Regeneration, standing still, driving.
    const kind = stream.integer(10);
    return kind === 0 ? -0.2 : kind <= 2 ? 0.3 : between(stream, 0.8, 1.5);
  });
  const mean = profile.reduce((sum, current) => sum + current, 0) / profile.length;
  return {
    capacity: between(stream, 1.84, 2.02),
    resistance: between(stream, 0.11, 0.125),
    fadeRoot: between(stream, 0.09, 0.16),
    fadeLinear: between(stream, 0.06, 0.12),
    resistanceGrowth: between(stream, 0.25, 0.55),
    ambient: between(stream, 22, 26),
    heating: between(stream, 17, 20),
    profile: profile.map((current) => current / mean),
    voltageOffset: between(stream, -0.1, -0.07),
    temperatureOffset: between(stream, -0.5, 0.5),
  };
}

/** @param charge from 0 to 1 */
function openCircuitVolts(charge: number): number {
  const position = Math.min(Math.max(charge, 0), 1) * (openCircuit.length - 1);
  const index = Math.min(Math.floor(position), openCircuit.length - 2);
  const low = openCircuit[index] as number;
  const high = openCircuit[index + 1] as number;
  return low + (high - low) * (position - index);
}

/** One full discharge of a cell that has aged for `cycle` cycles. `noise` is added to the measurements. */
function discharge(cell: CellParameters, cycle: number, noise: Stream): DischargeCycle {
  const age = cycle / 168;
  const capacity = cell.capacity * (1 - cell.fadeRoot * Math.sqrt(age) - cell.fadeLinear * age);
  const resistance = cell.resistance * (1 + cell.resistanceGrowth * age);
  let charge = 1;
  let polarisation = 0;
  let temperature = cell.ambient;
  let smooth = openCircuitVolts(1);
  let taken = 0;
  let volts = 0;
  let degrees = 0;
  let steps = 0;
  let fall = 0;
  for (; steps < 4000; steps++) {
    const current = ratedAmperes * (cell.profile[steps % cell.profile.length] ?? 1);
    polarisation += (current * resistance * 0.6 - polarisation) * (stepSeconds / 120);
    const terminal = openCircuitVolts(charge) - current * resistance - polarisation;
    smooth += (terminal + cell.voltageOffset - smooth) * 0.05;
    temperature +=
      (cell.ambient + cell.heating * current * current * resistance - temperature) * (stepSeconds / 900);
    volts += terminal;
    degrees += temperature;
    if (smooth < 3.8 && smooth >= 3.5) fall += stepSeconds;
    const ampereHours = (current * stepSeconds) / 3600;
    taken += ampereHours;
    charge -= ampereHours / capacity;
    if (smooth < cutOffVolts || charge <= 0) {
      steps++;
      break;
    }
  }
  const measured = (value: number, deviation: number): number => value + deviation * noise.normal();
  return {
    cycle,
    meanVoltage: measured(volts / steps + cell.voltageOffset, 0.002),
    meanTemperature: measured(degrees / steps + cell.temperatureOffset, 0.15),
    fallSeconds: measured(fall, 5),
    capacity: measured(taken, 0.004),
  };
}

/** All discharges of one cell. The same (kind, number, cycles) gives the same numbers on every machine. */
export function simulateCell(
  kind: "laboratory" | "vehicle",
  number: number,
  cycles: number,
): DischargeCycle[] {
  const streams = new Streams(String(number), 0);
  const stream = streams.stream(`cell/${kind}`);
  const cell = kind === "laboratory" ? laboratoryCell(stream) : vehicleCell(stream);
  return Array.from({ length: cycles }, (_, index) =>
    discharge(cell, index + 1, streams.stream(`noise/${kind}`)),
  );
}

/**
 * Parameters: `vehicle` (0, the default, for laboratory cells; n for those of vehicle n), `cells` (their
 * number), `cycles` (per cell), and those of windowOptions.
 */
export const batterySimulated: DatasetReader = {
  name: "battery-simulated",
  needsLocation: false,
  read(reference) {
    const parameters = new ParameterReader("battery-simulated", reference.parameters);
    const vehicle = parameters.whole("vehicle", 0, 0, 2 ** 31);
    const cells = parameters.whole("cells", vehicle === 0 ? 3 : 1, 1, 64);
    const cycles = parameters.whole("cycles", 168, 8, 2000);
    const options = windowOptions(parameters);
    parameters.end();
    const tables = Array.from({ length: cells }, (_, index) =>
      vehicle === 0
        ? simulateCell("laboratory", index + 1, cycles)
        : simulateCell("vehicle", vehicle * 64 + index, cycles),
    );
    return batterySet(tables, options, {
      reader: "battery-simulated",
      simulator: { version: 1, vehicle, cells, cycles },
    });
  },
};

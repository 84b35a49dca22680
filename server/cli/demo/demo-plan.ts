/**
 * The demo's fleet: its vehicles, their lines, and the data each trains on. Pure: takes the data that is
 * available and returns the plan and the agents' configuration files.
 */
import type { DatasetReference } from "../../../shared/train/training.js";

export const demoFleet = "demo";

/** Folders of real data that were found; generated data replaces the others. */
export interface AvailableData {
  /** Folders; undefined where the data set is missing. */
  readonly nasaBattery: string | undefined;
  readonly mnist: string | undefined;
}

export interface DemoLine {
  readonly line: string;
  readonly recipe: string;
  readonly parameters: Readonly<Record<string, string | number | boolean>>;
  readonly dataset: DatasetReference;
  readonly base: string;
}
export interface DemoVehicle {
  readonly device: string;
  readonly lines: readonly DemoLine[];
  /** True if it has a slow radio link, whose transfers take long enough to be interrupted. */
  readonly hasSlowLink: boolean;
  /** True if it reports how it made its models, with the data, and not their parameters. */
  readonly reportsProvenance: boolean;
}
export interface DemoBase {
  readonly name: string;
  readonly recipe: string;
  readonly parameters: Readonly<Record<string, string | number | boolean>>;
  readonly dataset: DatasetReference;
  readonly dataName: string;
  readonly seed: string;
  readonly task: string;
}
export interface DemoPlan {
  readonly bases: readonly DemoBase[];
  readonly vehicles: readonly DemoVehicle[];
  readonly rounds: number;
  readonly dataNotes: readonly string[];
}

/** @param rounds fine-tunes of every line */
export function planDemo(available: AvailableData, rounds: number): DemoPlan {
  const battery = (part: { cells: readonly string[]; vehicle: number }): DatasetReference =>
    available.nasaBattery === undefined
      ? { reader: "battery-simulated", parameters: { vehicle: part.vehicle } }
      : { reader: "nasa-battery", location: available.nasaBattery, parameters: { cells: [...part.cells] } };
  const camera = (vehicle: number): DatasetReference =>
    available.mnist === undefined
      ? { reader: "images-generated", parameters: { vehicle } }
      : { reader: "mnist", location: available.mnist, parameters: { vehicle } };

  const pack = (cell: string, vehicle: number, parameters: DemoLine["parameters"] = {}): DemoLine => ({
    line: "pack-soh",
    recipe: "battery-soh",
    parameters,
    dataset: battery({ cells: [cell], vehicle }),
    base: "soh-base",
  });
  const frontCam = (vehicle: number, parameters: DemoLine["parameters"]): DemoLine => ({
    line: "front-cam",
    recipe: "image-classify",
    parameters,
    dataset: camera(vehicle),
    base: "cam-base",
  });

  return {
    rounds,
    bases: [
      {
        name: "soh-base",
        task: "battery state of health",
        recipe: "battery-soh",
        parameters: { units: 64 },
        dataset: battery({ cells: ["B0005", "B0006"], vehicle: 0 }),
        dataName: "battery-laboratory",
        seed: "1",
      },
      {
        name: "cam-base",
        task: "front camera",
        recipe: "image-classify",
        parameters: {},
        dataset: camera(0),
        dataName: "images-laboratory",
        seed: "2",
      },
    ],
    vehicles: [
      {
        device: "vehicle-1",
        hasSlowLink: false,
        reportsProvenance: false,
        lines: [pack("B0007", 1), frontCam(1, { trainable: "head" })],
      },
      {
        device: "vehicle-2",
        hasSlowLink: false,
        reportsProvenance: true,
        lines: [pack("B0018", 2)],
      },
      { device: "vehicle-3", hasSlowLink: true, reportsProvenance: false, lines: [frontCam(2, {})] },
    ],
    dataNotes: [
      available.nasaBattery === undefined
        ? "battery: simulated cells (no nasa-battery below STEMMA_DATA)"
        : "battery: NASA's cells, base on B0005 and B0006, vehicles on B0007 and B0018",
      available.mnist === undefined
        ? "camera: generated digits (no mnist below STEMMA_DATA)"
        : "camera: MNIST test images, each vehicle through a camera of its own",
    ],
  };
}

/** The `agent.json` of one vehicle. */
export function agentConfigOf(
  vehicle: DemoVehicle,
  rounds: number,
  profile: string,
): Record<string, unknown> {
  return {
    format: 1,
    profile,
    lines: Object.fromEntries(
      vehicle.lines.map((line) => [
        line.line,
        {
          name: `${line.line}-${vehicle.device}`,
          recipe: line.recipe,
          parameters: line.parameters,
          dataset: line.dataset,
          ...(vehicle.reportsProvenance ? { approach: "provenance", sendSamples: true } : {}),
          schedule: { everySeconds: 1, rounds },
        },
      ]),
    ),
  };
}

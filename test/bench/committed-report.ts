/** The figures of committed repositories beside those that ModelHub's paper states, as a table. Pure. */
import { renderTable, type Column } from "../../shared/cli/table.js";
import type { CommittedRepository } from "./committed-repositories.js";

/** What the table shows. Undefined: the paper does not state it. */
interface Row {
  readonly name: string;
  readonly snapshots: number;
  readonly materialisedOfRaw?: number;
  readonly leastOfMaterialised: number;
  readonly plannedOfMaterialised?: number;
  /** Recreation times of a snapshot as multiples of everything materialised. */
  readonly leastIndependent: number;
  readonly leastParallel: number;
  readonly plannedIndependent: number;
  readonly plannedParallel: number;
}

/**
 * SD in ModelHub §V-B: MST 15.44 "Gb", SPT 22.77, the time of table V. Its 1.96 × 10¹⁰ floats would take 78.4 GB raw:
 * the SPT's 0.29 of that contradicts table IV (0.84 lossless, bitwise), so bytes are not compared with raw ones.
 */
const paper: Row = {
  name: "SD in the paper",
  snapshots: 540,
  leastOfMaterialised: 15.44 / 22.77,
  leastIndependent: 8.47 / 3.49,
  leastParallel: 4.85 / 2.16,
  plannedIndependent: 8.1 / 3.49,
  plannedParallel: 4.59 / 2.16,
};

function rowOf({ name, snapshots, materialised, leastStorage, planned }: CommittedRepository): Row {
  return {
    name,
    snapshots,
    materialisedOfRaw: materialised.storedBytes / materialised.rawBytes,
    leastOfMaterialised: leastStorage.storedBytes / materialised.storedBytes,
    plannedOfMaterialised: planned.storedBytes / materialised.storedBytes,
    leastIndependent: leastStorage.independentMs / materialised.independentMs,
    leastParallel: leastStorage.parallelMs / materialised.parallelMs,
    plannedIndependent: planned.independentMs / materialised.independentMs,
    plannedParallel: planned.parallelMs / materialised.parallelMs,
  };
}

const number = (title: string, value: (row: Row) => number | undefined, digits: number): Column<Row> => ({
  title,
  value: (row) => value(row)?.toFixed(digits) ?? "–",
  align: "right",
});

export function committedTable(repositories: readonly CommittedRepository[]): string {
  return renderTable(
    [paper, ...repositories.map(rowOf)],
    [
      { title: "REPOSITORY", value: ({ name }) => name },
      number("SNAPS", ({ snapshots }) => snapshots, 0),
      number("RAW", ({ materialisedOfRaw }) => materialisedOfRaw, 3),
      number("MST", ({ leastOfMaterialised }) => leastOfMaterialised, 3),
      number("PLAN", ({ plannedOfMaterialised }) => plannedOfMaterialised, 3),
      number("MST I", ({ leastIndependent }) => leastIndependent, 2),
      number("P", ({ leastParallel }) => leastParallel, 2),
      number("PLAN I", ({ plannedIndependent }) => plannedIndependent, 2),
      number("P", ({ plannedParallel }) => plannedParallel, 2),
    ],
  );
}

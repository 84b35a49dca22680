/** The figures of committed repositories beside those that ModelHub's paper states, as a table. Pure. */
import { renderTable, type Column } from "../../shared/cli/table.js";
import type { CommittedRepository } from "./committed-repositories.js";

/** What the table shows, as multiples of what storing or retrieving every snapshot's tensors materialised takes. */
interface Row {
  readonly name: string;
  readonly snapshots: number;
  /** Undefined here and below: the paper does not state it. */
  readonly rawMb?: number;
  /** Bytes with equal tensors stored once, everything materialised. */
  readonly onceStored?: number;
  readonly leastStored: number;
  readonly plannedStored?: number;
  /** By the storage graph of the same options. */
  readonly leastByGraph?: number;
  readonly plannedByGraph?: number;
  /** Bytes read to decode a snapshot, tensor by tensor. */
  readonly leastRead?: number;
  readonly plannedRead?: number;
  /** Times of retrieving a snapshot. */
  readonly leastIndependent: number;
  readonly plannedIndependent: number;
  readonly leastParallel: number;
  readonly plannedParallel: number;
}

/**
 * SD in ModelHub §V-B: MST 15.44 "Gb", SPT 22.77, the times of table V. Its 1.96 × 10¹⁰ floats take 78.4 GB raw: that
 * the SPT has 0.29 of them contradicts table IV (0.84, lossless and bitwise), so bytes are not compared with raw ones.
 */
const paper: Row = {
  name: "SD in the paper",
  snapshots: 540,
  leastStored: 15.44 / 22.77,
  leastIndependent: 8.47 / 3.49,
  plannedIndependent: 8.1 / 3.49,
  leastParallel: 4.85 / 2.16,
  plannedParallel: 4.59 / 2.16,
};

function rowOf(repository: CommittedRepository): Row {
  const { name, snapshots, rawBytes, graph, materialised, leastStorage, planned } = repository;
  return {
    name,
    snapshots,
    rawMb: rawBytes / 1e6,
    onceStored: materialised.storedBytes / materialised.readBytes,
    leastStored: leastStorage.storedBytes / materialised.readBytes,
    plannedStored: planned.storedBytes / materialised.readBytes,
    leastByGraph: graph.leastStorage,
    plannedByGraph: graph.planned,
    leastRead: leastStorage.readBytes / materialised.readBytes,
    plannedRead: planned.readBytes / materialised.readBytes,
    leastIndependent: leastStorage.independentMs / materialised.independentMs,
    plannedIndependent: planned.independentMs / materialised.independentMs,
    leastParallel: leastStorage.parallelMs / materialised.parallelMs,
    plannedParallel: planned.parallelMs / materialised.parallelMs,
  };
}

const number = (title: string, value: (row: Row) => number | undefined, digits: number): Column<Row> => ({
  title,
  value: (row) => value(row)?.toFixed(digits) ?? "–",
  align: "right",
});

const legend = `Multiples of every snapshot materialised. ONCE: equal tensors stored once;
MST: least storage; PLAN: α = 1.6; GRAPH: the same by the storage graph.
READ: bytes that a snapshot is decoded from; IND, PAR: processor time of its
independent and parallel retrieval. After each plan every snapshot was recovered
with the committed bytes.`;

export function committedTables(repositories: readonly CommittedRepository[]): string {
  const rows = [paper, ...repositories.map(rowOf)];
  const name: Column<Row> = { title: "REPOSITORY", value: (row) => row.name };
  const stored = renderTable(rows, [
    name,
    number("SNAPS", ({ snapshots }) => snapshots, 0),
    number("MB", ({ rawMb }) => rawMb, 0),
    number("ONCE", ({ onceStored }) => onceStored, 2),
    number("MST", ({ leastStored }) => leastStored, 2),
    number("GRAPH", ({ leastByGraph }) => leastByGraph, 2),
    number("PLAN", ({ plannedStored }) => plannedStored, 2),
    number("GRAPH", ({ plannedByGraph }) => plannedByGraph, 2),
  ]);
  const retrieved = renderTable(rows, [
    name,
    number("READ MST", ({ leastRead }) => leastRead, 2),
    number("PLAN", ({ plannedRead }) => plannedRead, 2),
    number("IND MST", ({ leastIndependent }) => leastIndependent, 2),
    number("PLAN", ({ plannedIndependent }) => plannedIndependent, 2),
    number("PAR MST", ({ leastParallel }) => leastParallel, 2),
    number("PLAN", ({ plannedParallel }) => plannedParallel, 2),
  ]);
  return `${stored}\n${retrieved}\n${legend}\n`;
}

/**
 * The nearest ancestor among many architectures (EvoStore, figure 5): `stemma bench lineage [--quick] [-o json]`.
 * A catalog of a search's candidates, queries for new ones, by the index and by comparing with every model. The
 * catalog is measured at a tenth of its size too. Then catalogs of other shapes (lineage-shapes.ts), and a server that
 * 1 to 512 clients ask while models come and go; `index` leaves the server out. Asserts nothing about time; the answers
 * of index and scan are compared.
 */
import { PostingIndex } from "../../server/storage/lineage/posting-index.js";
import type { PrefixCandidate, PrefixMatch } from "../../server/storage/lineage/prefix-index.js";
import { renderTable } from "../../shared/cli/table.js";
import { commonPrefix } from "../../shared/model/common-prefix.js";
import { layerIdentities } from "../../shared/model/layer-identity.js";
import { sha256 } from "../../shared/tensor/hash.js";
import type { Hash } from "../../shared/tensor/tensor.js";
import { longestByScan } from "../helpers/longest-by-scan.js";
import { measureClients, type ClientsResult } from "./lineage-clients.js";
import { measureShapes } from "./lineage-shapes.js";
import { candidateArchitecture, randomNumbers, searchedChoices } from "../helpers/random-architectures.js";

const args = process.argv.slice(2);
const isQuick = args.includes("--quick");
const catalog = isQuick ? 6_000 : 60_000;
const queries = isQuick ? 1_000 : 10_000;
const scans = isQuick ? 20 : 50;

interface Known {
  readonly choices: readonly number[];
  readonly identities: readonly Hash[];
  readonly model: PrefixCandidate;
}
interface Result {
  readonly models: number;
  readonly p50Us: number;
  readonly p99Us: number;
  /** Architectures and postings that a query looked at, on average. */
  readonly steps: number;
  readonly scanP50Us: number;
}

/** The index gives the scan's model, and as many layers as the two graphs have in common. */
function checkAnswer(query: Known, scanned: Known | undefined, byIndex: PrefixMatch | undefined): void {
  const shared =
    scanned === undefined
      ? undefined
      : commonPrefix(candidateArchitecture(query.choices), candidateArchitecture(scanned.choices));
  if (byIndex?.model.id !== scanned?.model.id || byIndex?.layers !== shared?.layers.length)
    throw new Error("The index and the scan give different answers. Please report this with the seed 1.");
}

function quantile(sorted: readonly number[], share: number): number {
  return sorted[Math.floor(share * (sorted.length - 1))] ?? 0;
}

function timed(run: () => void): number {
  const startedMs = performance.now();
  run();
  return 1_000 * (performance.now() - startedMs);
}

/** Microseconds of each query, without those of the first ones, in which the code is compiled. */
function measure(known: readonly Known[], asked: readonly Known[]): Result {
  const index = new PostingIndex();
  for (const { identities, model } of known) index.add(model, sha256(identities.join(" ")), identities);
  const knownById = new Map(known.map((one) => [one.model.id, one]));
  for (const { identities } of asked.slice(0, 200)) index.longest(identities);
  const stepsBefore = index.steps;
  const times = asked.map(({ identities }) => timed(() => index.longest(identities))).sort((a, b) => a - b);
  const steps = (index.steps - stepsBefore) / asked.length;
  const scanTimes = asked.slice(0, scans).map((query) => {
    let byScan: PrefixMatch | undefined;
    const us = timed(() => (byScan = longestByScan(known, query.identities)));
    const scanned = byScan === undefined ? undefined : knownById.get(byScan.model.id);
    checkAnswer(query, scanned, index.longest(query.identities));
    return us;
  });
  return {
    models: known.length,
    p50Us: quantile(times, 0.5),
    p99Us: quantile(times, 0.99),
    steps,
    scanP50Us: quantile(
      scanTimes.sort((a, b) => a - b),
      0.5,
    ),
  };
}

const random = randomNumbers(1);
const choices = searchedChoices(catalog + queries, random);
const known = choices.map<Known>((candidate, i) => ({
  choices: candidate,
  identities: layerIdentities(candidateArchitecture(candidate)).filter((identity) => identity !== undefined),
  model: { id: sha256(`model ${i}`), quality: random(1_000), savedAtMs: i },
}));
const asked = known.slice(catalog);
const results = [catalog / 10, catalog].map((count) => measure(known.slice(0, count), asked));
const shapes = measureShapes(isQuick);
const served = args.includes("index")
  ? undefined
  : await measureClients(isQuick ? 200 : 2_000, isQuick ? 1_000 : 10_000);

function renderServed({ models, first, rows }: ClientsResult): readonly string[] {
  const ms = (value: number): string => `${value.toFixed(1)} ms`;
  return [
    "",
    `a server with ${models} models: the first question ${ms(first.withoutCacheMs)}, after a restart ` +
      `${ms(first.withCacheMs)}, a later one ${ms(first.laterMs)}; over its socket:`,
    "",
    renderTable(rows, [
      { title: "CLIENTS", value: (row) => String(row.clients), align: "right" },
      { title: "QUERIES", value: (row) => String(row.queries), align: "right" },
      { title: "PER SECOND", value: (row) => row.perSecond.toFixed(0), align: "right" },
      { title: "P50", value: (row) => ms(row.p50Ms), align: "right" },
      { title: "P99", value: (row) => ms(row.p99Ms), align: "right" },
      { title: "ADDED", value: (row) => String(row.added), align: "right" },
      { title: "RETIRED", value: (row) => String(row.retired), align: "right" },
    ]),
  ];
}

if (args.includes("json")) process.stdout.write(`${JSON.stringify({ queries, results, shapes, served })}\n`);
else {
  const us = (value: number): string => `${value.toFixed(1)} µs`;
  process.stdout.write(
    [
      renderTable(results, [
        { title: "MODELS", value: (row) => row.models.toLocaleString("en"), align: "right" },
        { title: "P50", value: (row) => us(row.p50Us), align: "right" },
        { title: "P99", value: (row) => us(row.p99Us), align: "right" },
        { title: "STEPS", value: (row) => row.steps.toFixed(1), align: "right" },
        { title: "SCAN P50", value: (row) => `${row.scanP50Us.toFixed(0)} µs`, align: "right" },
      ]),
      "",
      renderTable(shapes, [
        { title: "CATALOG", value: (row) => row.shape },
        { title: "MODELS", value: (row) => row.models.toLocaleString("en"), align: "right" },
        { title: "BUILD", value: (row) => `${row.buildCpuMs.toFixed(0)} ms`, align: "right" },
        { title: "AN ADD", value: (row) => us(row.addCpuUs), align: "right" },
        { title: "P50", value: (row) => us(row.p50Us), align: "right" },
        { title: "P99", value: (row) => us(row.p99Us), align: "right" },
        { title: "ANOTHER THAN ONE", value: (row) => us(row.exceptP50Us), align: "right" },
        { title: "STEPS", value: (row) => row.steps.toFixed(1), align: "right" },
      ]),
      ...(served === undefined ? [] : renderServed(served)),
    ].join("\n"),
  );
}

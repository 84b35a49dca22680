/**
 * The nearest ancestor among many architectures (EvoStore, figure 5): `stemma bench lineage [--quick] [-o json]`.
 * A catalog of a search's candidates, queries for new ones, by the index and by comparing with every model. The
 * catalog is measured at a tenth of its size too. Asserts nothing about time; the answers of both are compared.
 */
import { compareCandidates, type PrefixCandidate } from "../../server/lineage/prefix-candidates.js";
import { PrefixIndex, type PrefixMatch } from "../../server/lineage/prefix-index.js";
import { renderTable } from "../../shared/cli/output.js";
import { commonPrefix } from "../../shared/model/common-prefix.js";
import { layerIdentities } from "../../shared/model/layer-identity.js";
import { sha256 } from "../../shared/tensor/hash.js";
import type { Hash } from "../../shared/tensor/tensor.js";
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
  /** Groups of models that a query compared, on average. */
  readonly compared: number;
  readonly scanP50Us: number;
}

function longestByScan(known: readonly Known[], query: readonly Hash[]): Known | undefined {
  const asked = new Set(query);
  let best: { candidate: Known; layers: number } | undefined;
  for (const candidate of known) {
    let layers = 0;
    for (const identity of candidate.identities) if (asked.has(identity)) layers++;
    if (
      best === undefined ||
      layers > best.layers ||
      (layers === best.layers && compareCandidates(candidate.model, best.candidate.model) < 0)
    )
      best = { candidate, layers };
  }
  return best?.candidate;
}

/** The index gives the scan's model, and as many layers as the two graphs have in common. */
function checkAnswer(
  query: Known,
  byScan: Known | undefined,
  byIndex: PrefixMatch<PrefixCandidate> | undefined,
): void {
  const shared =
    byScan === undefined
      ? undefined
      : commonPrefix(candidateArchitecture(query.choices), candidateArchitecture(byScan.choices));
  if (byIndex?.model.id !== byScan?.model.id || byIndex?.layers !== shared?.layers.length)
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
  const index = new PrefixIndex();
  for (const { identities, model } of known) index.add(identities, model);
  for (const { identities } of asked.slice(0, 200)) index.longest(identities);
  const stepsBefore = index.steps;
  const times = asked.map(({ identities }) => timed(() => index.longest(identities))).sort((a, b) => a - b);
  const compared = (index.steps - stepsBefore) / asked.length;
  const scanTimes = asked.slice(0, scans).map((query) => {
    let byScan: Known | undefined;
    const us = timed(() => (byScan = longestByScan(known, query.identities)));
    checkAnswer(query, byScan, index.longest(query.identities));
    return us;
  });
  return {
    models: known.length,
    p50Us: quantile(times, 0.5),
    p99Us: quantile(times, 0.99),
    compared,
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
process.stdout.write(
  args.includes("json")
    ? `${JSON.stringify({ queries, results })}\n`
    : renderTable(results, [
        { title: "MODELS", value: (row) => row.models.toLocaleString("en"), align: "right" },
        { title: "P50", value: (row) => `${row.p50Us.toFixed(1)} µs`, align: "right" },
        { title: "P99", value: (row) => `${row.p99Us.toFixed(1)} µs`, align: "right" },
        { title: "COMPARED", value: (row) => row.compared.toFixed(1), align: "right" },
        { title: "SCAN P50", value: (row) => `${row.scanP50Us.toFixed(0)} µs`, align: "right" },
      ]),
);

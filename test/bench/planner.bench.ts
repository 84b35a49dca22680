/**
 * Plans a repository like ModelHub's SD by every algorithm over a range of α (the paper's figure 6(c)),
 * repositories like its RD, retrieval under three schemes (the costs behind table V), and 10,000 and 50,000
 * tensors. Beside each plan is a lower bound on the storage of any plan within the same budgets. Storage and
 * recreation are predicted from the graph's costs; only the planner's own time and memory are measured. Asserts
 * nothing.
 *
 *   node dist/test/bench/planner.bench.js [-o json] [--quick] [--scheme independent|parallel] [--svg FILE]
 */
import { writeFile } from "node:fs/promises";
import { parseArgs } from "node:util";
import { budgetsByRatio, isWithin } from "../../server/storage/planner/budgets.js";
import { minimumStorageTree } from "../../server/storage/planner/minimum-arborescence.js";
import { referenceTrees } from "../../server/storage/planner/plan-storage.js";
import { planStorage } from "../helpers/plan-storage.js";
import {
  planningSchemes,
  retrieveShared,
  snapshotCosts,
  type PlanningScheme,
} from "../../server/storage/planner/retrieval.js";
import { minRecreationCosts, shortestPathTree } from "../../server/storage/planner/shortest-path-tree.js";
import type { ParentEdges, StorageGraph } from "../../server/storage/planner/storage-graph.js";
import { checkPlan } from "../../server/storage/planner/storage-plan.js";
import { StorageTree } from "../../server/storage/planner/storage-tree.js";
import { type Column } from "../../shared/cli/output.js";
import { renderTable } from "../../shared/cli/table.js";
import { StemmaError } from "../../shared/errors.js";
import { generateRepository, rdLike, sdLike } from "../helpers/generated-repository.js";
import { storageBound } from "../helpers/storage-bound.js";
import { tradeOffChart, type ChartSeries } from "./planner-chart.js";

const { values: options } = parseArgs({
  options: {
    output: { type: "string", short: "o", default: "table" },
    quick: { type: "boolean", default: false },
    scheme: { type: "string", default: "independent" },
    svg: { type: "string" },
  },
});
const scheme = planningSchemes.find((each) => each === options.scheme);
if (scheme === undefined)
  throw new StemmaError(
    "USAGE",
    `There is no planning scheme ${options.scheme}. Use one of: ${planningSchemes.join(", ")}.`,
  );
const isQuick = options.quick;
const ratios = isQuick ? [1, 1.5, 2, 3, 4] : [1, 1.1, 1.2, 1.3, 1.4, 1.5, 1.6, 1.8, 2, 2.5, 3, 3.5, 4];
const effort = isQuick ? { effort: 4e6 } : {};

const mean = (values: ArrayLike<number>): number =>
  Array.from(values).reduce((a, b) => a + b, 0) / values.length;
const timed = <Result>(work: () => Result): readonly [Result, number] => {
  const start = performance.now();
  const result = work();
  return [result, performance.now() - start];
};

interface Outcome {
  readonly algorithm: string;
  readonly storageGb: number;
  readonly storageOfLeast: number;
  readonly recreationOfLeast: number;
  readonly isWithinBudgets: boolean;
  readonly ms: number;
}
interface Comparison {
  /** Every algorithm of the paper; the last is the plan that `planStorage` returns. */
  readonly outcomes: readonly Outcome[];
  /** The lower bound on storage, over the least possible without budgets. */
  readonly boundOfLeast: number;
}

/** Every algorithm at one α on one graph; `best` is the plan that `planStorage` returns. */
function compare(graph: StorageGraph, ratio: number, under: PlanningScheme): Comparison {
  const minCosts = minRecreationCosts(graph);
  const budgets = budgetsByRatio(graph, minCosts, ratio, under);
  const minMeanCost = mean(snapshotCosts(graph, minCosts, under));
  const minStorageCost = new StorageTree(graph, minimumStorageTree(graph)).storageCost;
  const outcome = (algorithm: string, edges: ParentEdges, ms: number): Outcome => {
    const tree = new StorageTree(graph, edges);
    const costs = snapshotCosts(graph, tree.recreation, under);
    return {
      algorithm,
      storageGb: tree.storageCost / 1e9,
      storageOfLeast: tree.storageCost / minStorageCost,
      recreationOfLeast: mean(costs) / minMeanCost,
      isWithinBudgets: costs.every((cost, s) => isWithin(cost, budgets[s]!)),
      ms,
    };
  };
  const outcomes: Outcome[] = [];
  let start = performance.now();
  for (const { algorithm, tree } of referenceTrees(graph, budgets, { scheme: under })) {
    outcomes.push(outcome(algorithm, tree, performance.now() - start));
    start = performance.now();
  }
  const [plan, ms] = timed(() => planStorage(graph, { ratio }, { scheme: under, ...effort }));
  return {
    outcomes: [...outcomes, outcome("best", checkPlan(graph, plan), ms)],
    boundOfLeast: boundOf(graph, budgets, under, plan.storageCost) / minStorageCost,
  };
}

function boundOf(graph: StorageGraph, budgets: Float64Array, under: PlanningScheme, planned: number): number {
  return storageBound(graph, { budgets, scheme: under, planned, ...(isQuick ? { steps: 10 } : {}) });
}

/** Modelled seconds per snapshot of one tree under the three schemes. */
function retrievalOf(
  graph: StorageGraph,
  plan: string,
  edges: ParentEdges,
): {
  readonly plan: string;
  readonly independentS: number;
  readonly parallelS: number;
  readonly reusableS: number;
  readonly reusablePeakMb: number;
} {
  const { recreation } = new StorageTree(graph, edges);
  const shared = graph.snapshotIds.map((_, s) => retrieveShared(graph, edges, s));
  return {
    plan,
    independentS: mean(snapshotCosts(graph, recreation, "independent")) / 1e6,
    parallelS: mean(snapshotCosts(graph, recreation, "parallel")) / 1e6,
    reusableS: mean(shared.map(({ cost }) => cost)) / 1e6,
    reusablePeakMb: Math.max(...shared.map(({ peakBytes }) => peakBytes)) / 1e6,
  };
}

const sd = generateRepository(sdLike);
const byRatio = ratios.map((ratio) => ({ ratio, ...compare(sd, ratio, scheme) }));
const rd = Object.entries(rdLike).flatMap(([name, each]) =>
  [1.6, 2].map((ratio) => ({
    name,
    ratio,
    ...compare(
      generateRepository(isQuick ? { ...each, versions: Math.ceil(each.versions / 3) } : each),
      ratio,
      scheme,
    ),
  })),
);
const otherSeeds = [1, 2, 3, 4].slice(0, isQuick ? 1 : 4).map((seed) => ({
  seed,
  ratio: 2,
  best: compare(generateRepository({ ...sdLike, seed }), 2, scheme).outcomes.at(-1)!,
}));
const retrieval = [
  retrievalOf(sd, "materialised (SPT)", shortestPathTree(sd)),
  retrievalOf(sd, "least storage (MST)", minimumStorageTree(sd)),
  retrievalOf(sd, "planned, α = 1.6", checkPlan(sd, planStorage(sd, { ratio: 1.6 }, { scheme, ...effort }))),
];
const speed = (isQuick ? [63] : [13, 63, 313]).flatMap((versions) => {
  const graph = generateRepository({ ...sdLike, versions });
  const minCosts = minRecreationCosts(graph);
  return planningSchemes.flatMap((under) =>
    [1.1, 1.6].map((ratio) => {
      const [plan, ms] = timed(() => planStorage(graph, { ratio }, { scheme: under }));
      const residentMb = process.memoryUsage.rss() / 1e6;
      const bound = boundOf(graph, budgetsByRatio(graph, minCosts, ratio, under), under, plan.storageCost);
      return {
        tensors: graph.vertexCount - 1,
        edges: graph.edgeCount,
        scheme: under,
        ratio,
        seconds: ms / 1000,
        residentMb,
        storageOfLeast: plan.storageCost / plan.leastStorageCost,
        storageOfBound: plan.storageCost / bound,
        algorithm: plan.algorithm,
      };
    }),
  );
});

/** How the chart names and describes the algorithms. */
const algorithmTexts: Readonly<Record<string, Pick<ChartSeries, "name" | "meaning">>> = {
  mst: { name: "MST", meaning: "minimum spanning tree: least storage, no budgets kept" },
  spt: { name: "SPT", meaning: "shortest-path tree: fastest recreation, most storage" },
  last: { name: "LAST", meaning: "MST with shortest paths put in where a tensor is over its bound" },
  "pas-mt": {
    name: "PAS-MT",
    meaning: "ModelHub: from MST, swaps until every snapshot is within its budget",
  },
  "pas-pt": { name: "PAS-PT", meaning: "ModelHub: grows a tree by storage cost, budgets kept as it grows" },
  best: { name: "Stemma", meaning: "the best of these, then searched further" },
};

if (options.svg !== undefined) {
  const series: ChartSeries[] = byRatio[0]!.outcomes.map(({ algorithm }, index) => ({
    ...(algorithmTexts[algorithm] ?? { name: algorithm, meaning: "see docs/performance.md" }),
    points: byRatio.map(({ ratio, outcomes }) => ({
      ratio,
      storage: outcomes[index]!.storageOfLeast,
      recreation: outcomes[index]!.recreationOfLeast,
      isWithinBudgets: outcomes[index]!.isWithinBudgets,
    })),
  }));
  await writeFile(
    options.svg,
    tradeOffChart(
      `Storage and recreation cost over α, ${sd.vertexCount - 1} tensors like SD (${scheme})`,
      series,
    ),
  );
}

if (options.output === "json") {
  process.stdout.write(
    `${JSON.stringify({ scheme, sd: { tensors: sd.vertexCount - 1, edges: sd.edgeCount, snapshots: sd.snapshotIds.length, byRatio }, otherSeeds, rd, retrieval, speed }, null, 2)}\n`,
  );
} else {
  const cell = ({ storageOfLeast, recreationOfLeast, isWithinBudgets }: Outcome): string =>
    `${storageOfLeast.toFixed(4)} ${recreationOfLeast.toFixed(2)}${isWithinBudgets ? "" : "*"}`;
  const columnsOf = <Row extends { readonly ratio: number } & Comparison>(
    first: Column<Row>[],
  ): Column<Row>[] => [
    ...first,
    { title: "α", value: ({ ratio }) => ratio, align: "right" },
    ...byRatio[0]!.outcomes.map(({ algorithm }, index): Column<Row> => ({
      title: algorithm.toUpperCase(),
      value: ({ outcomes }) => cell(outcomes[index]!),
      align: "right",
    })),
    { title: "BOUND", value: ({ boundOfLeast }) => boundOfLeast.toFixed(4), align: "right" },
    {
      title: "BEST OF BOUND",
      value: ({ outcomes, boundOfLeast }) => (outcomes.at(-1)!.storageOfLeast / boundOfLeast).toFixed(4),
      align: "right",
    },
    { title: "BEST GB", value: ({ outcomes }) => outcomes.at(-1)!.storageGb.toFixed(2), align: "right" },
    { title: "PLAN S", value: ({ outcomes }) => (outcomes.at(-1)!.ms / 1000).toFixed(1), align: "right" },
  ];
  const print = (text: string): void => {
    process.stdout.write(`${text}\n`);
  };
  print(
    `SD-like, ${sd.vertexCount - 1} tensors, ${sd.edgeCount} edges, ${scheme}: storage over the least possible, mean recreation over the least possible (*: over a budget); a lower bound on the storage of any plan within the budgets`,
  );
  print(renderTable(byRatio, columnsOf<(typeof byRatio)[number]>([])));
  print("RD-like");
  print(
    renderTable(rd, columnsOf<(typeof rd)[number]>([{ title: "REPOSITORY", value: ({ name }) => name }])),
  );
  print(
    `SD with other seeds at α = 2, storage over the least possible: ${otherSeeds.map(({ seed, best }) => `seed ${seed} ${best.storageOfLeast.toFixed(4)}`).join(", ")}`,
  );
  print("\nSnapshot retrieval, mean seconds as modelled");
  print(
    renderTable(retrieval, [
      { title: "PLAN", value: ({ plan }) => plan },
      { title: "INDEPENDENT", value: (row) => row.independentS.toFixed(3), align: "right" },
      { title: "PARALLEL", value: (row) => row.parallelS.toFixed(3), align: "right" },
      { title: "REUSABLE", value: (row) => row.reusableS.toFixed(3), align: "right" },
      { title: "ITS PEAK MB", value: (row) => row.reusablePeakMb.toFixed(0), align: "right" },
    ]),
  );
  print("Like SD, in several sizes");
  print(
    renderTable(speed, [
      { title: "TENSORS", value: (row) => row.tensors, align: "right" },
      { title: "EDGES", value: (row) => row.edges, align: "right" },
      { title: "SCHEME", value: (row) => row.scheme },
      { title: "α", value: (row) => row.ratio, align: "right" },
      { title: "SECONDS", value: (row) => row.seconds.toFixed(1), align: "right" },
      { title: "MB RESIDENT", value: (row) => row.residentMb.toFixed(0), align: "right" },
      { title: "STORAGE", value: (row) => row.storageOfLeast.toFixed(4), align: "right" },
      { title: "OF BOUND", value: (row) => row.storageOfBound.toFixed(4), align: "right" },
      { title: "FROM", value: (row) => row.algorithm },
    ]),
  );
}

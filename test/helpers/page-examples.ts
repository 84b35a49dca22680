/** Versions for pages: large ones, and ones whose every text is hostile. */
import type { Described } from "../../server/cli/repository/current-version.js";
import type { LineageGraph } from "../../server/interface/api/models/lineage-definitions.js";
import { comparisonPage } from "../../server/cli/page/comparison-page.js";
import { versionPage, type PageLayer } from "../../server/cli/page/version-page.js";
import { versionsPage } from "../../server/cli/page/versions-page.js";
import type { ListedVersion } from "../../server/cli/page/version-list.js";
import type { Measurement } from "../../shared/train/training.js";
import type { Hash } from "../../shared/tensor/tensor.js";

export const idOf = (number: number): Hash => number.toString(16).padStart(12, "0").padEnd(64, "0") as Hash;

/** Markup, quotes, the ends of elements, control characters, another direction, marks above marks, and length. */
export const hostileTexts: readonly string[] = [
  `</script><script>globalThis.broken = 1</script>`,
  `</style><style>*{display:none}</style>`,
  `"'><img src=x onerror="globalThis.broken = 1">`,
  "]]>--><!--",
  "\u202eright to left\u0000\u001b[31m\u2028",
  `Z${"\u0301\u0323".repeat(40)}algo`,
  "w".repeat(10_000),
  "\u6f22".repeat(300),
];

export function describedVersion(overrides: Partial<Described> = {}): Described {
  const name = overrides.name ?? "m";
  return {
    versionId: idOf(1),
    name,
    version: 1,
    record: {
      format: 2,
      name,
      fleet: "local",
      device: "",
      line: "",
      sequence: 1,
      bases: [],
      kind: "architecture",
      contentId: idOf(2),
      architecture: idOf(3),
      root: idOf(4),
      approach: "snapshot",
      savedAtMs: 0,
      clockErrorMs: null,
      objects: { tree: idOf(5), names: idOf(6), ownerMap: idOf(7), environment: idOf(8) },
    },
    position: 1,
    recordedAtMs: 0,
    state: "stored",
    tags: [],
    held: false,
    tensorBytes: 4,
    ownBytes: 4,
    leaves: [],
    environment: {},
    uses: [],
    bases: [],
    derived: [],
    ...overrides,
  };
}

/** A network of blocks with a way around each, whose layers have several owners. */
export function networkOf(
  count: number,
  nameOfLayer: (at: number) => string,
  owners: readonly { readonly name: string; readonly version: number }[],
): { readonly layers: readonly PageLayer[]; readonly leaves: Described["leaves"] } {
  const layers = Array.from({ length: count }, (_, at) => ({
    name: nameOfLayer(at),
    className: at % 4 === 3 ? "Add" : "Conv2D",
    shape: [32, 32, 64],
    parameters: at % 4 === 3 ? 0 : 36_928 + at,
    operations: at % 4 === 3 ? 0 : 37_748_736,
    activations: 65_536,
    inputs: at === 0 ? [] : at % 4 === 3 && at > 3 ? [at - 1, at - 4] : [at - 1],
  }));
  const leaves = layers.flatMap(({ name, parameters }, at) => {
    const owner = owners[Math.floor((at * owners.length) / count)] as { name: string; version: number };
    return parameters === 0
      ? []
      : ["kernel", "bias"].map((weight, of) => ({
          path: `${at}/${of}`,
          name: `${name}/${weight}`,
          dtype: "F32",
          shape: [3, 3, 64, 64],
          bytes: 147_456,
          owner: { ...owner, versionId: idOf(1000 + owners.indexOf(owner)) },
        }));
  });
  return { layers, leaves };
}

export function measurementsOf(count: number, metric = "accuracy"): readonly Measurement[] {
  return Array.from({ length: count }, (_, at) => ({
    iteration: at * 10,
    epoch: 1,
    loss: Math.exp(-at / (count / 8)) + (at % 7) / 1000,
    learningRate: 0.01,
    metrics: { [metric]: at % 50 === 3 ? null : 1 - 1 / (at + 2) },
  }));
}

/** Versions of several lines of work that part and join, newest first. */
export function listedVersions(count: number, nameOf: (at: number) => string): readonly ListedVersion[] {
  return Array.from({ length: count }, (_, at): ListedVersion => {
    const bases =
      at === 0 ? [] : at % 10 === 9 && at > 6 ? [at - 1, at - 6] : [Math.max(0, at - (at % 3) - 1)];
    return {
      versionId: idOf(at + 1),
      name: nameOf(at),
      version: at + 1,
      state: "released",
      tags: at % 100 === 0 ? ["best"] : [],
      held: false,
      savedAtMs: 1_795_000_000_000 + at * 60_000,
      clockErrorMs: null,
      recordedAtMs: 1_795_000_000_000 + at * 60_000,
      device: "",
      line: "",
      bases: bases.map((base) => idOf(base + 1)),
      after: [],
      storedBytes: 1000 + at,
      subject: `change ${nameOf(at)}`,
      facts: [["author", nameOf(at)]],
      figures: new Map([
        ["loss", String(1 / (at + 1)).slice(0, 8)],
        ["accuracy", "0.9"],
      ]),
    };
  }).reverse();
}

const page = (described: Described, layers: readonly PageLayer[] | undefined): string =>
  versionPage({
    described,
    layers,
    totals: [["operations", "1234567890 a sample"]],
    family: { versions: listedVersions(30, () => "m") as LineageGraph["versions"], total: 30 },
    writtenAtMs: 0,
  });

function hostileVersion(at: number): Described {
  const text = (of: number): string => hostileTexts[(at + of) % hostileTexts.length] as string;
  return describedVersion({
    versionId: idOf(at + 1),
    name: text(0),
    tags: [text(1)],
    metadata: {
      "commit.message": `${text(2)}\n${text(3)}`,
      "commit.author": text(4),
      [text(5)]: text(6),
      [`x${at}`]: text(7),
    },
    measurements: measurementsOf(20, text(1)),
    provenance: { [text(0)]: { [text(1)]: [text(2), { deep: text(6) }] } },
    environment: { [text(3)]: text(5) },
    ...(({ leaves, layers }) => ({ leaves, layers }))(
      networkOf(
        8,
        (layer) => text(layer),
        hostileTexts.map((name) => ({ name, version: 1 })),
      ),
    ),
  });
}

interface PageExample {
  readonly make: () => string;
  /** True if axe-core takes too long for it; a small example has the same components. */
  readonly isLarge: boolean;
}

/** The pages that are shown to a browser. */
export const pageExamples: Readonly<Record<string, PageExample>> = {
  "a version of 1000 layers": { make: largeVersion, isLarge: true },
  "a version of hostile texts": {
    make: () => {
      const described = hostileVersion(0);
      return page(described, described.layers as readonly PageLayer[]);
    },
    isLarge: false,
  },
  "2 versions side by side": { make: () => hostileComparison(2), isLarge: false },
  "16 versions side by side": { make: () => hostileComparison(16), isLarge: true },
  "a list of hostile names": {
    make: () => listPage(listedVersions(16, (at) => hostileTexts[at % hostileTexts.length] as string)),
    isLarge: false,
  },
  "a list of 10000 versions": {
    make: () => listPage(listedVersions(10_000, (at) => `model-${at % 7}`)),
    isLarge: true,
  },
};

function largeVersion(): string {
  const { layers, leaves } = networkOf(
    1000,
    (at) => `block_${Math.floor(at / 4)}/layer_${at}`,
    Array.from({ length: 10 }, (_, at) => ({ name: "pack", version: at + 1 })),
  );
  const provenance = { engine: idOf(9), parameters: { rate: { value: 0.1, from: "default" } } };
  return page(describedVersion({ leaves, layers, measurements: measurementsOf(5000), provenance }), layers);
}

function hostileComparison(count: number): string {
  const versions = Array.from({ length: count }, (_, at) => hostileVersion(at));
  return comparisonPage({
    versions,
    facts: hostileTexts.map((name) => ({ name, values: versions.map((_, at) => hostileTexts[at % 3]) })),
    diffs: versions.slice(1).map(({ versionId }) => ({
      a: idOf(1),
      b: versionId,
      sameArchitecture: true,
      opaque: false,
      comparisons: 1,
      changes: [{ kind: "changed", path: "1/0", name: hostileTexts[2] as string }],
    })),
    writtenAtMs: 0,
  });
}

export function listPage(versions: readonly ListedVersion[]): string {
  return versionsPage({ title: "Models", kind: "Model repository", versions, total: 20_000, writtenAtMs: 0 });
}

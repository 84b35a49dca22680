/**
 * Fleets in memory and random queries on them, each with a function that says of plain data whether a combination of
 * versions fits: it shares nothing with parser, planner and evaluator.
 */
import type { Candidate, Courses, QuerySource } from "../../server/learning/query/query-source.js";
import type { RowFilter, VersionRow } from "../../server/storage/repository/row-keeper.js";
import { StemmaError } from "../../shared/errors.js";
import type { Hash } from "../../shared/tensor/tensor.js";

export type Draw = (below: number) => number;
export type Truth = boolean | undefined;

interface PlainLayer {
  readonly name: string;
  readonly className: string;
  readonly config: Readonly<Record<string, unknown>>;
  readonly next: readonly number[];
}
export interface PlainModel {
  readonly id: Hash;
  readonly name: string;
  readonly number: number;
  readonly day: number;
  readonly device: string;
  readonly tags: readonly string[];
  readonly config: Readonly<Record<string, string | number>>;
  readonly layers: readonly PlainLayer[] | undefined;
  readonly losses: readonly (readonly [iteration: number, value: number | null])[];
  readonly bases: readonly Hash[];
}

const layerKinds = [
  ["conv", "Conv2D", { filters: 4 }],
  ["pool", "MaxPooling2D", {}],
  ["avg", "AveragePooling2D", {}],
  ["relu", "Activation", { activation: "relu" }],
  ["fc", "Dense", { units: 8 }],
] as const;
const one = <Item>(items: readonly Item[], draw: Draw): Item => items[draw(items.length)] as Item;
const dayMs = 86_400_000;
const firstDayMs = Date.UTC(2026, 0, 1);

/** Models, oldest first; several share their layers. */
export function plainModels(count: number, draw: Draw): readonly PlainModel[] {
  const networks = Array.from({ length: 3 }, () => plainNetwork(draw));
  const counts = new Map<string, number>();
  const models: PlainModel[] = [];
  for (let at = 0; at < count; at++) {
    const name = one(["net-a", "net-b", "other_c"], draw);
    counts.set(name, (counts.get(name) ?? 0) + 1);
    models.push({
      id: at.toString(16).padStart(64, "0") as Hash,
      name,
      number: counts.get(name) ?? 0,
      day: draw(5),
      device: one(["", "van-1", "van-2"], draw),
      tags: ["best", "old"].filter(() => draw(2) === 0),
      config: draw(4) === 0 ? {} : { lr: one<string | number>([0.1, 0.01, "auto"], draw) },
      layers: draw(4) === 0 ? undefined : one(networks, draw),
      losses: draw(3) === 0 ? [] : [100, 200].map((each) => [each, draw(6) === 0 ? null : draw(5) / 4]),
      bases: at === 0 || draw(3) === 0 ? [] : [one(models, draw).id],
    });
  }
  return models;
}

/** A chain of layers, in which some layers also feed a later one. */
function plainNetwork(draw: Draw): readonly PlainLayer[] {
  const count = 3 + draw(5);
  return Array.from({ length: count }, (_, at): PlainLayer => {
    const [name, className, config] = one(layerKinds, draw);
    const next = [at + 1, ...(draw(3) === 0 ? [at + 2] : [])].filter((each) => each < count);
    return { name: `${name}${1 + draw(3)}`, className, config, next };
  });
}

/** The port of queries on plain models. What no condition asks for is not given. */
export function sourceOf(models: readonly PlainModel[]): QuerySource {
  const byId = new Map(models.map((model) => [model.id, model]));
  const rows = models.map(rowOf);
  const networks = new Map<unknown, NonNullable<Candidate["network"]>>();
  return {
    find: (filter) => {
      const by = filter.ids
        ? "ids"
        : filter.name !== undefined
          ? "name"
          : filter.device !== undefined
            ? "device"
            : "all";
      return Promise.resolve({ rows: rows.filter((row) => isNarrow(row, filter)), by, looked: rows.length });
    },
    load: (facet, candidates) => {
      for (const candidate of candidates) {
        const model = byId.get(candidate.row.versionId);
        if (facet === "metadata") Object.assign(candidate, { metadata: model?.config });
        if (facet === "courses") Object.assign(candidate, { courses: model && coursesOf(model) });
        if (facet !== "network" || model?.layers === undefined) continue;
        const network = networks.get(model.layers) ?? networkOf(model.layers);
        networks.set(model.layers, network);
        Object.assign(candidate, { network });
      }
      return Promise.resolve([]);
    },
    nearest: () => Promise.resolve(undefined),
    storedNetwork: () => Promise.resolve(undefined),
    resolve: (reference) => {
      const found = models.find(({ name, number }) => `${name}:${number}` === reference);
      if (found === undefined) throw new StemmaError("MODEL_NOT_FOUND", `no ${reference}`);
      return found.id;
    },
    basesOf: (id) => byId.get(id)?.bases ?? [],
    childrenOf: (id) => models.filter(({ bases }) => bases.includes(id)).map((child) => child.id),
    now: () => 0,
  };
}

function isNarrow(row: VersionRow, { name, namePrefix, device, ids, recordedFromMs }: RowFilter): boolean {
  return (
    (name === undefined || row.name === name) &&
    (namePrefix === undefined || row.name.startsWith(namePrefix)) &&
    (device === undefined || row.record.device === device) &&
    (ids === undefined || ids.has(row.versionId)) &&
    (recordedFromMs === undefined || row.recordedAtMs >= recordedFromMs)
  );
}

function rowOf(model: PlainModel, position: number): VersionRow {
  const savedAtMs = firstDayMs + model.day * dayMs;
  return {
    ...{ versionId: model.id, name: model.name, version: model.number, position, recordedAtMs: savedAtMs },
    ...{ tensorBytes: 8, ownBytes: 8, storedBytes: undefined, by: undefined, state: "stored" },
    ...{
      tags: model.tags,
      isHeld: false,
      files: [],
      checkpoints: 0,
      network: undefined,
      objects: {},
    },
    record: {
      ...{ device: model.device, line: "models", savedAtMs, approach: "snapshot", kind: "architecture" },
      ...{ architecture: model.id, bases: model.bases },
    },
  };
}

function coursesOf({ losses }: PlainModel): Courses {
  const course = { iterations: losses.map(([at]) => at), values: losses.map(([, value]) => value) };
  return new Map(losses.length === 0 ? [] : [["loss", course]]);
}

function networkOf(layers: readonly PlainLayer[]): NonNullable<Candidate["network"]> {
  return {
    parameters: 0,
    layers: layers.map(({ name, className, config, next }, at) => ({
      ...{ name, forms: [{ className, config }], next },
      prev: layers.flatMap((layer, before) => (layer.next.includes(at) ? [before] : [])),
    })),
  };
}

export interface RandomCondition {
  readonly text: string;
  readonly holds: (bound: Readonly<Record<string, PlainModel>>) => Truth;
}

const orders = {
  "=": (a: unknown, b: unknown) => a === b,
  "!=": (a: unknown, b: unknown) => a !== b,
  "<": (a: never, b: never) => a < b,
  ">=": (a: never, b: never) => a >= b,
} as const;
const compared = (a: unknown, operator: keyof typeof orders, b: unknown): Truth =>
  typeof a !== typeof b ? undefined : orders[operator](a as never, b as never);

export interface RandomQuery {
  readonly text: string;
  readonly variables: readonly string[];
  readonly where: RandomCondition;
}

export function randomQuery(models: readonly PlainModel[], draw: Draw): RandomQuery {
  const variables = draw(3) === 0 ? ["a", "b"] : ["m1"];
  const where = condition({ models, draw, variables }, 1 + draw(3));
  return { text: `select ${variables.join(", ")} where ${where.text}`, variables, where };
}

/** Combinations that fit, by going through the product, newest first. */
export function plainAnswer(
  models: readonly PlainModel[],
  { variables, where }: RandomQuery,
): readonly string[] {
  const product = variables.reduce<readonly (readonly PlainModel[])[]>(
    (rows) => rows.flatMap((row) => models.toReversed().map((model) => [...row, model])),
    [[]],
  );
  const named = (row: readonly PlainModel[]): Record<string, PlainModel> =>
    Object.fromEntries(variables.map((name, at) => [name, row[at] as PlainModel]));
  return product
    .filter((row) => where.holds(named(row)) === true)
    .map((row) => row.map(({ id }) => id).join());
}

interface Ground {
  readonly models: readonly PlainModel[];
  readonly draw: Draw;
  readonly variables: readonly string[];
}

function condition(ground: Ground, depth: number): RandomCondition {
  const { draw } = ground;
  const kind = depth === 0 ? 3 : draw(4);
  if (kind === 2) {
    const inner = condition(ground, depth - 1);
    return {
      text: `not (${inner.text})`,
      holds: (bound) => {
        const truth = inner.holds(bound);
        return truth === undefined ? undefined : !truth;
      },
    };
  }
  if (kind > 2) return leaf(ground);
  const of = [condition(ground, depth - 1), condition(ground, depth - 1), condition(ground, depth - 1)];
  const decides = kind === 1;
  return {
    text: `(${of.map(({ text }) => text).join(decides ? " OR " : "\n and ")})`,
    holds: (bound) => {
      const truths = of.map(({ holds }) => holds(bound));
      return truths.includes(decides) ? decides : truths.includes(undefined) ? undefined : !decides;
    },
  };
}

function leaf(ground: Ground): RandomCondition {
  const { draw, models, variables } = ground;
  const v = one(variables, draw);
  const w = variables.find((name) => name !== v);
  const operator = one(["=", "!=", "<", ">="] as const, draw);
  const value = draw(5) / 4;
  const layered = (text: string, holds: (layers: readonly PlainLayer[]) => boolean): RandomCondition => ({
    text: `${v}${text}`,
    holds: ({ [v]: model }) => model?.layers && holds(model.layers),
  });
  const after = (layers: readonly PlainLayer[], layer: PlainLayer): readonly PlainLayer[] =>
    layer.next.flatMap((next) => layers[next] ?? []);
  const plain: (() => RandomCondition)[] = [
    () => {
      const name = one(["net-a", "net-b", "none"], draw);
      return {
        text: `${v}.name ${operator} "${name}"`,
        holds: (bound) => compared(bound[v]?.name, operator, name),
      };
    },
    () => ({ text: `${v}.name like 'net-%'`, holds: (bound) => bound[v]?.name.startsWith("net-") }),
    () => ({ text: `${v}.name like "%_c"`, holds: (bound) => /^.*.c$/.test(bound[v]?.name ?? "") }),
    () => ({ text: `${v}.number ${operator} 2`, holds: (bound) => compared(bound[v]?.number, operator, 2) }),
    () => {
      const day = draw(5);
      const field = one(["creation_time", "recorded_time"], draw);
      return {
        text: `${v}.${field} ${operator} "2026-01-0${day + 1}"`,
        holds: (bound) => compared(bound[v]?.day, operator, day),
      };
    },
    () => ({
      text: `${v}.device ${operator} "van-1"`,
      holds: (bound) => (bound[v]?.device === "" ? undefined : compared(bound[v]?.device, operator, "van-1")),
    }),
    () => ({ text: `${v}.device is known`, holds: (bound) => bound[v]?.device !== "" }),
    () => ({ text: `${v}.tag = "best"`, holds: (bound) => bound[v]?.tags.includes("best") }),
    () => ({ text: `${v}.tag != "best"`, holds: (bound) => !bound[v]?.tags.includes("best") }),
    () => ({
      text: `${v}.config.lr ${operator} 0.05`,
      holds: (bound) => compared(bound[v]?.config["lr"], operator, 0.05),
    }),
    () => ({
      text: `${v}["loss"] ${operator} ${value}`,
      holds: (bound) => compared(bound[v]?.losses.at(-1)?.[1] ?? undefined, operator, value),
    }),
    () => ({
      text: `${v}["loss", 100] ${operator} ${value}`,
      holds: (bound) => compared(bound[v]?.losses[0]?.[1] ?? undefined, operator, value),
    }),
    () =>
      layered('["conv[1,3]"].next has POOL("MAX")', (layers) =>
        layers.some(
          (layer) =>
            /^conv[13,]$/.test(layer.name) &&
            after(layers, layer).some(({ className }) => className === "MaxPooling2D"),
        ),
      ),
    () =>
      layered('["conv*($1)"].next has RELU("relu$1")', (layers) =>
        layers.some((layer) => {
          const found = /^conv(.*)$/.exec(layer.name);
          return found !== null && after(layers, layer).some(({ name }) => name === `relu${found[1]}`);
        }),
      ),
    () =>
      layered('["fc?"].prev.prev has CONV2D(filters=4)', (layers) =>
        layers.some(
          (layer) =>
            layer.className === "Conv2D" &&
            after(layers, layer).some((middle) =>
              after(layers, middle).some(({ name }) => name.startsWith("fc")),
            ),
        ),
      ),
    () => {
      const { name, number, id } = one(models, draw);
      const relation = one(["parent", "child", "ancestor", "descendant"] as const, draw);
      return {
        text: `${v} ${relation} of "${name}:${number}"`,
        holds: (bound) => isRelated(models, [bound[v]?.id, relation, id]),
      };
    },
    () => {
      const inner = condition({ models, draw, variables: ["x"] }, 1);
      return {
        text: `${v} in (select x where ${inner.text})`,
        holds: (bound) => inner.holds({ x: bound[v] as PlainModel }) === true,
      };
    },
  ];
  const joins: (() => RandomCondition)[] =
    w === undefined
      ? []
      : [
          () => ({ text: `${v}.name = ${w}.name`, holds: (bound) => bound[v]?.name === bound[w]?.name }),
          () => ({
            text: `${v}["loss"] ${operator} ${w}["loss"]`,
            holds: (bound) =>
              [v, w].some((name) => bound[name]?.losses.at(-1)?.[1] == null)
                ? undefined
                : compared(bound[v]?.losses.at(-1)?.[1], operator, bound[w]?.losses.at(-1)?.[1]),
          }),
          ...(["parent", "child", "ancestor", "descendant"] as const).map((relation) => () => ({
            text: `${v} ${relation} of ${w}`,
            holds: (bound: Readonly<Record<string, PlainModel>>) =>
              isRelated(models, [bound[v]?.id, relation, bound[w]?.id]),
          })),
        ];
  return one(draw(2) === 0 && joins.length > 0 ? joins : plain, draw)();
}

function isRelated(
  models: readonly PlainModel[],
  [a, relation, b]: readonly [unknown, string, unknown],
): boolean {
  if (relation === "child" || relation === "descendant")
    return isRelated(models, [b, relation === "child" ? "parent" : "ancestor", a]);
  const bases = models.find(({ id }) => id === b)?.bases ?? [];
  return bases.some(
    (base) => base === a || (relation === "ancestor" && isRelated(models, [a, relation, base])),
  );
}

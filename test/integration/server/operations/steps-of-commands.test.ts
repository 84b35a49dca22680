/**
 * What commands on a large fleet do, counted in steps instead of time: twice the versions take at most twice the
 * steps and a little, and a page of a list does not cost what the whole list does. A step is a call of Map or Set, an
 * item that an iterator gives, or a call of the function that is passed to a method of arrays.
 */
import assert from "node:assert/strict";
import { after, describe, it } from "node:test";
import type { ServerOperations } from "../../../../server/interface/api/server-operations.js";
import { openFleets } from "../../../../server/services/context/open-fleets.js";
import { localOperations } from "../../../../server/operations/local-operations.js";
import { unhashedOpaqueModel } from "../../../../shared/save/model-source.js";
import type { Hash } from "../../../../shared/tensor/tensor.js";
import { evaluationOf, predictionsOfOne } from "../../../helpers/evaluation-of.js";
import { memoryHome, openRepository } from "../storage/repository/harness.js";

const few = process.env["STEMMA_TEST_FULL"] === "1" ? 2_000 : 200;
const fleet = "fleet-a";
/** Half are a chain of one name, the others belong to ten. */
const lines = 10;

type FunctionOf = (...args: unknown[]) => unknown;
const mapIterator = Object.getPrototypeOf(new Map().entries()) as object;
const setIterator = Object.getPrototypeOf(new Set().values()) as object;
const arrayIterator = Object.getPrototypeOf([].values()) as object;
const callbacks = [
  "filter",
  "map",
  "flatMap",
  "find",
  "findLast",
  "some",
  "every",
  "forEach",
  "sort",
  "toSorted",
];
const counted: readonly (readonly [object, readonly string[]])[] = [
  [Map.prototype, ["get", "has", "set", "delete"]],
  [Set.prototype, ["has", "add", "delete"]],
  [mapIterator, ["next"]],
  [setIterator, ["next"]],
  [arrayIterator, ["next"]],
];

/** Counts while `work` runs. The methods are those of the whole process: nothing else runs meanwhile. */
async function stepsOf(work: () => Promise<unknown>): Promise<number> {
  let steps = 0;
  const undo: (() => void)[] = [];
  const replace = (owner: object, name: string, by: (original: FunctionOf) => FunctionOf): void => {
    const original = Reflect.get(owner, name) as FunctionOf;
    Reflect.set(owner, name, by(original));
    undo.push(() => {
      Reflect.set(owner, name, original);
    });
  };
  for (const [owner, names] of counted)
    for (const name of names)
      replace(
        owner,
        name,
        (original) =>
          function (this: unknown, ...args) {
            steps++;
            return Reflect.apply(original, this, args);
          },
      );
  for (const name of callbacks)
    replace(
      Array.prototype,
      name,
      (original) =>
        function (this: unknown, callback, ...rest) {
          if (typeof callback !== "function") return Reflect.apply(original, this, [callback, ...rest]);
          const each = function (this: unknown, ...args: unknown[]): unknown {
            steps++;
            return Reflect.apply(callback, this, args);
          };
          return Reflect.apply(original, this, [each, ...rest]);
        },
    );
  try {
    await work();
  } finally {
    for (const put of undo.reverse()) put();
  }
  return steps;
}

interface OpenedFleet {
  readonly operations: ServerOperations;
  /** Opens the fleet again, as a command and a server's start do. */
  reopen(): Promise<void>;
  close(): Promise<void>;
}

/** @param versions half of them in a chain, which are evaluated; of these every second one is retired afterwards */
async function fleetOf(versions: number): Promise<OpenedFleet> {
  // A fleet of this size has no index: its blocks, which are read whole, would hardly be full.
  const { home } = await memoryHome(Infinity);
  const repository = await openRepository(home, fleet);
  const save = async (name: string, count: number): Promise<void> => {
    let base: Hash | undefined;
    for (let version = 0; version < count; version++) {
      const tensors = [0, 1].map((tensor) => {
        const bytes = Buffer.from(`${name} ${tensor} ${tensor === 0 ? version : 0}`.padEnd(64));
        return { name: `t${tensor}`, dtype: "U8" as const, shape: [64], bytes };
      });
      const { summary } = await repository.save(unhashedOpaqueModel(tensors), {
        name,
        metadata: { version },
        ...(base === undefined ? {} : { bases: [base] }),
      });
      base = summary.versionId;
      if (name === "long") await repository.storeEvaluation(evaluationOf(summary, version), predictionsOfOne);
    }
  };
  await save("long", versions / 2);
  for (const { versionId, version } of repository.versions({ name: "long" }).slice(0, -1))
    if (version % 2 === 0) await repository.retire(versionId, "old");
  for (let line = 0; line < lines; line++) await save(`line-${line}`, versions / 2 / lines);
  await repository.close();
  const open = (): ReturnType<typeof openFleets> => openFleets(home);
  let fleets = open();
  const operations = new Proxy({} as ServerOperations, {
    get: (_, name) => Reflect.get(localOperations({ home, fleets, version: "test" }), name) as unknown,
  });
  return {
    operations,
    reopen: async () => {
      await fleets.close();
      fleets = open();
      await operations.listModels({ fleet, limit: 1 });
    },
    close: async () => {
      await fleets.close();
      await home.close();
    },
  };
}

const small = await fleetOf(few);
const large = await fleetOf(2 * few);
after(async () => {
  await small.close();
  await large.close();
});

type Work = (opened: OpenedFleet) => Promise<unknown>;
const works: Readonly<Record<string, Work>> = {
  "opening the fleet": (opened) => opened.reopen(),
  "model list": ({ operations }) => operations.listModels({ fleet, limit: 50 }),
  "model list, a later page": ({ operations }) => operations.listModels({ fleet, limit: 50, offset: 50 }),
  "model log": ({ operations }) => operations.log({ fleet, model: "long" }),
  "model log --graph": ({ operations }) => operations.lineage({ fleet, model: "long", limit: 100 }),
  "model show": ({ operations }) => operations.model({ fleet, model: "long" }),
  "model show by the whole id, ten times": async ({ operations }) => {
    const { versionId } = await operations.model({ fleet, model: "long" });
    for (let times = 0; times < 10; times++) await operations.model({ fleet, model: versionId });
  },
  "model diff": ({ operations }) => operations.diff({ fleet, a: "long:1", b: "long" }),
  "model descendants": ({ operations }) => operations.descendants({ fleet, model: "long:1" }),
  "model verify": ({ operations }) => operations.verify({ fleet, model: "long" }),
  "model evals": ({ operations }) => operations.evaluations({ fleet }),
  "storage stats": ({ operations }) => operations.stats({ fleet }),
  "storage gc --dry-run": ({ operations }) => operations.planCollection({ fleet }),
  "storage check": ({ operations }) => operations.check({ fleet }),
};
/** Do not depend on how many versions there are. */
const constant = new Set(["model show", "model show by the whole id, ten times", "model verify"]);

describe(`steps at ${2 * few} versions beside ${few}`, () => {
  for (const [name, work] of Object.entries(works))
    it(name, async () => {
      const steps: number[] = [];
      for (const opened of [small, large]) {
        // What is built at the first question is not counted.
        await work(opened);
        steps.push(await stepsOf(() => work(opened)));
      }
      const [before, now] = steps as [number, number];
      const most = constant.has(name) ? 1.1 : 2.3;
      assert.ok(now <= most * before + 200, `${now} steps, ${before} for half of the versions`);
    });

  it("a page of the log does not cost the whole chain", async () => {
    const page = await stepsOf(() => large.operations.log({ fleet, model: "long", limit: 10 }));
    const whole = await stepsOf(() => large.operations.log({ fleet, model: "long" }));
    assert.ok(page < whole / 5, `${page} of ${whole} steps`);
  });
});

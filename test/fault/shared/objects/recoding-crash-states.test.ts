/**
 * Saves, recodings and collections on recorded files: after a crash at any moment that loses any data not fsynced,
 * every live saved tensor is read back bit for bit, and work continues.
 */
import assert from "node:assert/strict";
import { it } from "node:test";
import { isStemmaError } from "../../../../shared/errors.js";
import { openPackStore, type PackStore } from "../../../../shared/objects/pack-store.js";
import type { Files } from "../../../../shared/ports.js";
import type { Hash, Tensor } from "../../../../shared/tensor/tensor.js";
import {
  codedAgainst,
  codedFrom,
  idOfTensor,
  memberOf,
  readBack,
  writePack,
} from "../../../helpers/coded-tensors.js";
import { checkCrashStates, crashStateCount } from "../../../helpers/crash-states.js";
import { derivedTensors } from "../../../helpers/derived-models.js";
import { manualClock, seededNumbers, seededRandom } from "../../../helpers/manual-clock.js";

const folder = "/home/packs";
type Mark = { readonly what: "saved" | "giving-up"; readonly tensor: number };
const tensors = Array.from({ length: 12 }, (_, i) => memberOf(Math.floor(i / 6), i % 6, [6, 30]));
const ids = tensors.map(idOfTensor);
const open = (files: Files, seed: string): Promise<PackStore> =>
  openPackStore(files, folder, {
    clock: manualClock(),
    random: seededRandom(seed),
    decodedCacheBytes: 4000,
    leastTableObjects: 1,
  });
const coded = new Map<string, ReturnType<typeof codedAgainst>>();
function coding(tensor: number, base: number): ReturnType<typeof codedAgainst> {
  const key = `${tensor} ${base}`;
  let found = coded.get(key);
  if (found === undefined)
    coded.set(
      key,
      (found = codedAgainst(
        tensors[tensor]!,
        tensors[base],
        undefined,
        (tensor + base) % 3 === 0 ? "planes" : "packed",
      )),
    );
  return found;
}

/**
 * Recodes every live tensor against a random other one, or raw: parents first, one pack each, as a plan is applied.
 * Recodings that would form a cycle are refused and skipped.
 */
async function recodeAll(store: PackStore, live: readonly number[], random: () => number): Promise<void> {
  for (const tensor of live) {
    const base = live[Math.floor(random() * live.length)]!;
    try {
      await writePack(store, [random() < 0.2 || base === tensor ? tensors[tensor]! : coding(tensor, base)], {
        recode: true,
      });
    } catch (error) {
      if (!isStemmaError(error, "CHAIN_CYCLIC")) throw error;
    }
  }
}

async function collect(store: PackStore, live: readonly number[]): Promise<void> {
  const needed = new Set(live.map((n) => ids[n] as Hash));
  await store.collect(await store.planCollection(needed), () => needed);
}

async function work(files: Files, mark: (mark: Mark) => void): Promise<void> {
  const random = seededNumbers(11);
  let store = await open(files, "first");
  let live: number[] = [];
  const save = async (...saved: readonly number[]): Promise<void> => {
    await Promise.all(
      saved.map(async (tensor) => {
        const base = live.find((other) => random() < 0.5 && other !== tensor);
        await writePack(store, [base === undefined ? tensors[tensor]! : coding(tensor, base)]);
        mark({ what: "saved", tensor });
      }),
    );
    live.push(...saved);
  };
  for (let round = 0; round < 4; round++) {
    await save(round * 3, round * 3 + 1, round * 3 + 2);
    await recodeAll(store, live, random);
    for (const tensor of live.filter((n) => n % 5 === round)) {
      mark({ what: "giving-up", tensor });
      live = live.filter((n) => n !== tensor);
    }
    await collect(store, live);
    if (round === 2) {
      await store.close();
      store = await open(files, "second");
    }
  }
  await store.close();
}

async function check(files: Files, marks: readonly Mark[]): Promise<void> {
  const store = await open(files, "after the crash");
  assert.deepEqual(store.problems(), []);
  const given = new Set(marks.filter(({ what }) => what === "giving-up").map(({ tensor }) => tensor));
  const live = marks
    .filter(({ what, tensor }) => what === "saved" && !given.has(tensor))
    .map(({ tensor }) => tensor);
  const exact = async (): Promise<void> => {
    for (const n of live) {
      assert.ok(store.has(ids[n] as Hash), `tensor ${n} is lost`);
      assert.deepEqual(await readBack(store, ids[n] as Hash), (tensors[n] as Tensor).bytes, `tensor ${n}`);
    }
  };
  await exact();
  // Work continues from there.
  if (live.length > 1) await recodeAll(store, live, seededNumbers(live.length));
  await collect(store, live);
  await exact();
  await store.close();
}

it("keeps every live tensor exact in any crash state of recoding and collecting", async () => {
  await checkCrashStates<Mark>({ name: "recoding", run: work, check });
});

/** Each with what it is recoded from: an average of several, a cast, codes, other rows and axes. */
const derived = derivedTensors();
const clients = ["client-0", "client-1", "client-2"];
const recodings: readonly (readonly [string, readonly string[]])[] = [
  ["average", clients],
  ...["half", "turned", "sorted", "grown", "int8", ...clients].map((name) => [name, ["base"]] as const),
  ["newest", ["average"]],
  ["average", []],
  ["average", clients],
];

it("keeps tensors exact in any crash state of storing them as what they follow from", async () => {
  const of = (name: string): Tensor => derived.get(name) ?? assert.fail(name);
  const coded = new Map(
    recodings.map(([name, from]) => [`${name} ${from.join()}`, codedFrom(of(name), from.map(of))]),
  );
  const live = new Set([...derived.values()].map(idOfTensor));
  const assertAll = async (store: PackStore): Promise<void> => {
    for (const [name, tensor] of derived) assert.deepEqual(await readBack(store, tensor), tensor.bytes, name);
  };
  await checkCrashStates<"saved">({
    name: "relations",
    run: async (files, mark) => {
      const store = await open(files, "relations");
      await writePack(store, [...derived.values()]);
      mark("saved");
      for (const [index, [name, from]] of recodings.entries()) {
        const own = coded.get(`${name} ${from.join()}`) ?? assert.fail(name);
        await writePack(store, [own], { recode: true });
        if (index % 4 === 3) await store.collect(await store.planCollection(live), () => live);
      }
      assert.equal(store.encodingOf(idOfTensor(of("average")))?.others?.length, 1);
      await store.close();
    },
    check: async (files, marks) => {
      const store = await open(files, "after the crash");
      assert.deepEqual(store.problems(), []);
      if (marks.length > 0) {
        await assertAll(store);
        await store.collect(await store.planCollection(live), () => live);
        await assertAll(store);
      }
      await store.close();
    },
    states: Math.ceil(crashStateCount() / 16),
  });
});

it("would notice if a recoding's pack became visible before its name was durable", async () => {
  const careless = (files: Files): Files => ({
    ...files,
    syncFolder: (path) => (path === folder ? Promise.resolve() : files.syncFolder(path)),
  });
  await assert.rejects(
    () =>
      checkCrashStates<Mark>({
        name: "names are not fsynced",
        run: (files, mark) => work(careless(files), mark),
        check,
        states: 2000,
      }),
    /crash before event/,
  );
});

/** Averages of named models: the same in any order, proved or refuted by replays, refused where they would be wrong. */
import assert from "node:assert/strict";
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import fc from "fast-check";
import { averageRecord } from "../../../../../shared/average/average-record.js";
import type { AverageRule } from "../../../../../shared/average/average-numbers.js";
import { objectId } from "../../../../../shared/tensor/hash.js";
import { encodeEnvironment } from "../../../../../shared/model/environment.js";
import { makeProvenance } from "../../../../../shared/provenance/make-provenance.js";
import { opaqueModelSource } from "../../../../../shared/save/model-source.js";
import { tensorOfSource, type Hash } from "../../../../../shared/tensor/tensor.js";
import { AveragedFleet, fleet, floats, wholes, type Model } from "./averaged-fleet.js";

const counters = wholes([7n, 8n]);
const model = (values: readonly number[]): Model => ({ w: floats(values), b: floats([1, 2]), n: counters });
const named = ["m:1", "m:2", "m:3", "m:4", "m:5"];

describe("averages", () => {
  let home: AveragedFleet;
  const ids: Hash[] = [];
  before(async () => {
    home = await AveragedFleet.open();
    for (let k = 0; k < named.length; k++) ids.push(await home.save("m", model([k, 0.1 * k, -1e9 * k, 1])));
  });
  after(() => home.remove());

  const numbers = async (reference: string, tensor = "w"): Promise<readonly number[]> => {
    const { leaves, sources } = await home.repository.recover(home.repository.resolve(reference).versionId);
    const source = sources[leaves.findIndex(({ path }) => path === tensor)];
    assert.ok(source !== undefined);
    return [...new Float32Array((await tensorOfSource(source)).bytes.buffer)];
  };
  const merge = (models: readonly string[], more: object = {}) =>
    home.operations.mergeModels({ fleet, models: [...models], name: "average", ...more });
  const replayed = (reference: string) => home.operations.replay({ fleet, model: reference });

  it("of models in any order have the same root, and their bases ascend", async () => {
    const roots = new Set<Hash>();
    const weights = [5, 4, 3, 2, 1];
    await fc.assert(
      fc.asyncProperty(fc.shuffledSubarray([0, 1, 2, 3, 4], { minLength: 5 }), async (order) => {
        const { summary } = await merge(
          order.map((k) => named[k]!),
          { weights: order.map((k) => weights[k]!) },
        );
        roots.add(summary.record.root);
        assert.deepEqual(summary.record.bases, [...ids].sort());
      }),
      { numRuns: 12 },
    );
    assert.equal(roots.size, 1);
  });

  it("are what the rule says, and a replay proves each", async () => {
    for (const [more, expected] of [
      [{}, [2, 0.2, -2e9, 1]],
      [{ rule: "weighted", weights: [1, 1, 1, 1, 4] }, [2.75, 0.275, -2.75e9, 1]],
      [{ trim: 0.2 }, [2, 0.2, -2e9, 1]],
    ] as const) {
      const { summary, sameTensors } = await merge(named, more);
      assert.deepEqual(await numbers(summary.versionId), expected.map(Math.fround));
      assert.equal(sameTensors, 2);
      const { verdict, grade, proof } = await replayed(summary.versionId);
      assert.deepEqual([verdict, grade], ["proved", "bit-exact"]);
      assert.ok(proof?.bound.includes("average.rule") && !proof.bound.includes("provenance.data"));
    }
    await home.close();
    await home.reopen();
    assert.equal(home.repository.resolve("average").replayed?.verdict, "proved");
  });

  it("of equal models are that model, whatever the type", async () => {
    const odd: Model = {
      d: { dtype: "F64", shape: [2], bytes: new Uint8Array(Float64Array.of(0.1, -0).buffer) },
    };
    for (const name of ["odd-a", "odd-b", "odd-c"]) await home.save(name, odd);
    const { summary } = await merge(["odd-a", "odd-b", "odd-c"]);
    assert.equal(summary.record.root, home.repository.resolve("odd-a").record.root);
  });

  it("are refused where they would be wrong, and leave nothing", async () => {
    await home.save("nan", model([1, Number.NaN, 2, 3]));
    await home.save("inf", model([1, 2, -Infinity, 3]));
    await home.save("other", { w: floats([1, 2, 3]), b: floats([1, 2]), n: counters });
    await home.save("counted", { ...model([1, 2, 3, 4]), n: wholes([7n, 9n]) });
    await home.operations.reduce({ fleet, model: "m:1", scheme: "float16", name: "small" });
    const before = home.repository.versionCount();
    for (const [models, code, more] of [
      [["m:1", "nan"], "NOT_A_NUMBER"],
      [["m:1", "inf"], "NOT_A_NUMBER"],
      [["m:1", "other"], "ARCHITECTURE_MISMATCH"],
      [["m:1", "counted"], "AVERAGE_REFUSED"],
      [["m:1", "small"], "MODEL_REDUCED"],
      [["m:1"], "USAGE"],
      [["m:1", "m:1"], "USAGE"],
      [["m:1", "m:2"], "USAGE", { weights: [1] }],
      [["m:1", "m:2"], "USAGE", { weights: [1, 1], rule: "mean" }],
      [["m:1", "m:2", "m:3"], "USAGE", { trim: 0.1 }],
      [["m:1", "m:2"], "USAGE", { rule: "trimmed" }],
      [["m:1", "m:2"], "NAME_INVALID", { name: "a:b" }],
      [["m:1", "nobody"], "MODEL_NOT_FOUND"],
    ] as const)
      await assert.rejects(merge(models, more), { code }, `${models.join()} ${JSON.stringify(more)}`);
    assert.equal(home.repository.versionCount(), before);
  });

  it("that a record only claims to be are refuted", async () => {
    const lie = (rule: AverageRule | undefined, bases: readonly Hash[], values: readonly number[]) =>
      saveStated(home, { rule, bases, values });
    const sorted = [...ids].sort();
    const refuted = await replayed(await lie({ rule: "mean" }, sorted, [2, 0.2, -2e9, 1.0000001]));
    assert.deepEqual(
      [refuted.verdict, refuted.grade, refuted.difference?.tensors],
      ["refuted", "different", 1],
    );
    const weighted = { rule: "weighted", weights: [1, 1, 1, 1, 4] } as const;
    assert.equal((await replayed(await lie(weighted, sorted, [2.5, 0.2, -2e9, 1]))).verdict, "refuted");
    for (const [rule, bases, reason] of [
      [{ rule: "mean" }, [...sorted].reverse(), "unsupported"],
      [{ rule: "weighted", weights: [1] }, sorted, "unsupported"],
      [{ rule: "weighted", weights: [1, 1, 1, 1, -4] }, sorted, "unsupported"],
      [{ rule: "trimmed", trimmedEach: 3 }, sorted, "unsupported"],
      [{ rule: "mean" }, sorted.slice(0, 1), "unsupported"],
      [{ rule: "mean" }, [...sorted, "f".repeat(64) as Hash], "base-missing"],
    ] as const)
      assert.equal((await replayed(await lie(rule, bases, [2, 0.2, -2e9, 1]))).reason, reason);
    const hidden = await lie({ rule: "mean" }, sorted, [2, 0.2, -2e9, 1]);
    await home.operations.redact({ fleet, model: hidden });
    assert.equal((await replayed(hidden)).reason, "redacted");
  });

  it("keep their tensors, since a recovery goes back along one base", async () => {
    const { dropped, kept } = await home.operations.dropTensors({ fleet, models: ["average:1"] });
    assert.deepEqual([dropped.length, kept.length], [0, 1]);
  });

  it("are not made, and not proved, of a base with a flipped bit", async () => {
    const values = [...Array(64).keys()].map((k) => k + 0.125);
    await home.save("sound", { w: floats(values) });
    await home.save("flipped", { w: floats(values.map((value) => value * 2)) });
    const { summary } = await merge(["sound", "flipped"]);
    await home.close();
    flipInPack(home.path, Buffer.from(floats(values.map((value) => value * 2)).bytes));
    await home.reopen();
    await assert.rejects(merge(["sound", "flipped"]), { code: "OBJECT_HASH_MISMATCH" });
    await assert.rejects(replayed(summary.versionId), { code: "OBJECT_HASH_MISMATCH" });
  });
});

/** A version that states to be an average. */
async function saveStated(
  { repository, home }: AveragedFleet,
  {
    rule,
    bases,
    values,
  }: {
    readonly rule: AverageRule | undefined;
    readonly bases: readonly Hash[];
    readonly values: readonly number[];
  },
): Promise<string> {
  const environment = { backend: "none" };
  const { summary } = await repository.save(
    opaqueModelSource(Object.entries(model(values)).map(([name, tensor]) => ({ name, ...tensor }))),
    {
      name: "lie",
      bases: bases.filter((id) => repository.get(id) !== undefined),
      environment,
      ...makeProvenance(
        {
          engine: undefined,
          recipe: undefined,
          exactness: "none",
          bases,
          data: [],
          environment: objectId("environment", encodeEnvironment(environment)),
        },
        { ...(rule && { average: averageRecord(rule) }) },
        home.ports.random,
      ),
    },
  );
  return summary.versionId;
}

function flipInPack(folder: string, bytes: Buffer): void {
  for (const name of readdirSync(folder, { recursive: true, encoding: "utf8" })) {
    if (!name.endsWith(".pack")) continue;
    const pack = readFileSync(join(folder, name));
    const at = pack.indexOf(bytes);
    if (at < 0) continue;
    pack[at + 9]! ^= 16;
    writeFileSync(join(folder, name), pack);
    return;
  }
  assert.fail("no pack has the tensor");
}

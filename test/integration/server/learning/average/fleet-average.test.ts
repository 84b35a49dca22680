/** Averages over a fleet: devices that lie or differ are left out by name, and none outvotes the others. */
import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { isStemmaError } from "../../../../../shared/errors.js";
import { tensorOfSource } from "../../../../../shared/tensor/tensor.js";
import { AveragedFleet, fleet, floats, line, wholes, type Model } from "./averaged-fleet.js";

const model = (values: readonly number[]): Model => ({ w: floats(values), n: wholes([7n]) });
const samples = (count: number) => ({ metadata: { "training.samples": count } });

describe("the average over a fleet", () => {
  let home: AveragedFleet;
  before(async () => {
    home = await AveragedFleet.open();
    await home.sent("van-1", model([1, 2, 3, 4]), samples(100));
    await home.sent("van-2", model([1.1, 2.1, 3.2, 4]), samples(120));
    await home.sent("van-3", model([0.9, 1.9, 3, 4.1]), samples(110));
    await home.sent("liar", model([1, 2.2, 3.1, 4]), samples(1e12));
    await home.sent("nan", model([Number.NaN, Number.NaN, Number.NaN, Number.NaN]), samples(100));
    await home.sent("huge", model([1e30, -1e30, 1e30, 1e30]), samples(100));
    await home.sent("other", { w: floats([1, 2]), n: wholes([7n]) }, samples(100));
    await home.sent("counter", { w: floats([1, 2, 3, 4.2]), n: wholes([8n]) }, samples(100));
    await home.sent("silent", model([1, 2, 3.1, 4.2]));
    await home.sent("new", model([1, 2, 3.1, 4.3]), { ...samples(100), isConfirmed: false });
    await home.sent("sold", model([1, 2, 3.1, 4.4]), samples(100));
    await home.enroll("empty");
    await home.operations.revoke({ fleet, device: "sold" });
  });
  after(() => home.remove());

  const average = (more: object = {}) =>
    home.operations.averageFleet({ fleet, line, select: "all", ...more });
  const refusalOf = async (more: object): Promise<unknown> => {
    try {
      await average(more);
    } catch (error) {
      return isStemmaError(error) ? error.code : error;
    }
    return undefined;
  };

  it("names every device that it leaves out, and caps what one states", async () => {
    const { taken, leftOut, summary, medianSamples } = await average();
    assert.deepEqual(
      leftOut.map(({ device }) => device),
      ["counter", "empty", "huge", "nan", "new", "other", "silent", "sold"],
    );
    assert.deepEqual(
      new Map(taken.map(({ device, weight }) => [device, weight])),
      new Map(
        taken.map(({ device }) => [device, { "van-1": 100, "van-2": 120, "van-3": 110, liar: 330 }[device]]),
      ),
    );
    assert.deepEqual([taken.length, medianSamples], [4, 110]);
    assert.deepEqual(
      taken.map(({ versionId }) => versionId),
      summary?.record.bases,
    );
    assert.equal(summary?.name, "soh-average");
    assert.equal((await home.operations.replay({ fleet, model: summary.versionId })).verdict, "proved");
    const { provenance } = await home.operations.model({ fleet, model: summary.versionId });
    const { chosen } = (provenance as { readonly average: { readonly chosen: Record<string, unknown> } })
      .average;
    assert.deepEqual(
      [chosen["line"], chosen["selection"], chosen["outliers"], chosen["maxWeight"], chosen["leftOutCount"]],
      [line, "all", 3, 3, 8],
    );
  });

  it("with equal weights takes the device that states nothing, too", async () => {
    const { taken, rule } = await average({ weights: "equal", name: "equal" });
    assert.equal(rule, "mean");
    assert.ok(taken.some(({ device }) => device === "silent"));
    const found = await home.repository.recover(home.repository.resolve("equal").versionId);
    const [values] = await Promise.all(
      found.leaves.flatMap(({ path }, i) => (path === "w" ? [tensorOfSource(found.sources[i]!)] : [])),
    );
    assert.ok([...new Float32Array(values!.bytes.buffer)].every((value, i) => Math.abs(value - i - 1) < 0.2));
  });

  it("is only described in a dry run", async () => {
    const before = home.repository.versionCount();
    const { summary, taken } = await average({ dryRun: true });
    assert.deepEqual([summary, taken.length, home.repository.versionCount()], [null, 4, before]);
  });

  it("needs three devices to tell which is wrong, and two at least", async () => {
    const two = "name=van-1 or name=van-2";
    assert.equal(await refusalOf({ select: two }), "AVERAGE_REFUSED");
    const { taken } = await average({ select: two, outliers: 0 });
    assert.deepEqual(
      taken.map(({ weight }) => weight),
      [100, 100],
    );
    for (const select of ["name=van-1", "name=empty", "name=nobody", "name=nan or name=van-1"])
      assert.equal(await refusalOf({ select, outliers: 0 }), "AVERAGE_REFUSED", select);
    assert.equal(await refusalOf({ line: "none" }), "AVERAGE_REFUSED");
    assert.equal(await refusalOf({ select: "name=other or name=van-1" }), "ARCHITECTURE_MISMATCH");
    assert.equal(await refusalOf({ select: "name=counter or name=van-1" }), "AVERAGE_REFUSED");
    assert.equal(await refusalOf({ select: "nonsense" }), "SELECTION_INVALID");
  });
});

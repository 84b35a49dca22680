/** Announcements that wait for their base: returned in order, and bounded per device and in total. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { ParkingLot } from "../../../../../server/fleet/ingest/uploads/parking.js";
import type { Hash } from "../../../../../shared/tensor/tensor.js";

const hash = (at: number): Hash => at.toString(16).padStart(64, "0") as Hash;
const lot = (): ParkingLot<string> =>
  new ParkingLot<string>({ parkedPerDevice: 2, parkedTotal: 3, parkedBytes: 100, parkedMs: 1000 });
const entry = (
  at: number,
  device = "d",
  bytes = 10,
  base = 99,
): Parameters<ParkingLot<string>["park"]>[0] => ({
  versionId: hash(at),
  device,
  bases: [hash(base)],
  bytes,
  item: `item ${at}`,
});

describe("parked announcements", () => {
  it("are returned for their base, in the order of arrival", () => {
    const parked = lot();
    parked.park(entry(2), 0);
    parked.park(entry(1), 0);
    parked.park(entry(3, "other", 10, 98), 0);
    assert.deepEqual(
      parked.takeWaitingFor(hash(99)).map(({ item }) => item),
      ["item 2", "item 1"],
    );
    assert.equal(parked.count, 1);
    assert.equal(parked.bytes, 10);
  });

  it("are bounded per device, in total, and in bytes", () => {
    const parked = lot();
    assert.ok(parked.park(entry(1), 0));
    assert.ok(parked.park(entry(2), 0));
    assert.equal(parked.park(entry(3), 0), undefined);
    assert.equal(parked.park(entry(3, "other", 81), 0), undefined);
    assert.ok(parked.park(entry(3, "other", 80), 0));
    assert.equal(parked.park(entry(4, "third", 0), 0), undefined);
  });

  it("count once when they are parked again, and their time restarts", () => {
    const parked = lot();
    parked.park(entry(1, "d", 60), 0);
    assert.equal(parked.park(entry(1, "d", 60), 500)?.expiresAtMs, 1500);
    assert.equal(parked.bytes, 60);
    assert.deepEqual(parked.takeExpired(1000), []);
    assert.deepEqual(
      parked.takeExpired(1500).map(({ item }) => item),
      ["item 1"],
    );
    assert.equal(parked.bytes, 0);
  });

  it("are removed with their device", () => {
    const parked = lot();
    parked.park(entry(1), 0);
    parked.park(entry(2, "other"), 0);
    assert.equal(parked.takeOfDevice("d").length, 1);
    assert.equal(parked.has(hash(2)), true);
    assert.equal(parked.take(hash(2))?.item, "item 2");
    assert.equal(parked.take(hash(2)), undefined);
  });
});

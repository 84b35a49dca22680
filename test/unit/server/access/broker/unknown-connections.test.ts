/** Who keeps a place among connections that are not authenticated yet, by address, silence and age. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import {
  UnknownConnections,
  type UnknownConnection,
  type UnknownConnectionLimits,
} from "../../../../../server/access/broker/unknown-connections.js";

type Progress = ReturnType<UnknownConnection["progress"]>;

/** Connections named `address#number`, and which of them were evicted, in order. */
function unknowns(limits: Partial<UnknownConnectionLimits> = {}): {
  readonly unknown: UnknownConnections;
  readonly arrive: (
    address: string,
    progress?: Progress,
  ) => { isAdmitted: boolean; connection: UnknownConnection };
  readonly evicted: readonly string[];
} {
  const unknown = new UnknownConnections({
    maxUnknownConnections: 6,
    maxUnknownConnectionsPerAddress: 4,
    reservedForKnownAddresses: 2,
    ...limits,
  });
  const evicted: string[] = [];
  const counts = new Map<string, number>();
  const arrive = (
    address: string,
    progress: Progress = "silent",
  ): { isAdmitted: boolean; connection: UnknownConnection } => {
    const number = (counts.get(address) ?? 0) + 1;
    counts.set(address, number);
    const connection = {
      address,
      progress: () => progress,
      evict: () => {
        evicted.push(`${address}#${number}`);
      },
    };
    return { isAdmitted: unknown.admit(connection) === undefined, connection };
  };
  return { unknown, arrive, evicted };
}

describe("connections that are not authenticated yet", () => {
  it("make place at their own address, the oldest silent one first", () => {
    const { arrive, evicted } = unknowns();
    arrive("a", "partial");
    for (let count = 0; count < 3; count++) arrive("a");
    for (let count = 0; count < 3; count++) assert.ok(arrive("a", "complete").isAdmitted);
    assert.deepEqual(evicted, ["a#2", "a#3", "a#4"]);
    assert.ok(arrive("a", "complete").isAdmitted);
    assert.deepEqual(evicted.slice(3), ["a#1"]);
    assert.equal(arrive("a").isAdmitted, false, "those about to be judged are not closed");
  });

  it("are spared for a while after their arrival, although they are silent", () => {
    const { arrive, evicted } = unknowns();
    for (const progress of ["partial", "partial", "partial", "silent", "partial"] as const)
      arrive("a", progress);
    assert.deepEqual(evicted, ["a#1"]);
  });

  it("make place for other addresses at the address that has most of them", () => {
    const { arrive, evicted } = unknowns();
    for (const address of ["b", "a", "a", "a"]) arrive(address);
    assert.ok(arrive("c").isAdmitted);
    assert.ok(arrive("d").isAdmitted);
    assert.deepEqual(evicted, ["a#1", "a#2"]);
  });

  it("leave the reserve to addresses of known devices", () => {
    const { unknown, arrive, evicted } = unknowns();
    unknown.recognise("home");
    for (const address of ["a", "b", "c", "d"]) arrive(address, "complete");
    assert.equal(arrive("e").isAdmitted, false);
    assert.ok(arrive("home").isAdmitted);
    assert.ok(arrive("home").isAdmitted);
    assert.deepEqual(evicted, []);
  });

  it("of addresses of known devices are not closed for unknown addresses", () => {
    const { unknown, arrive, evicted } = unknowns({ maxUnknownConnections: 4 });
    unknown.recognise("home");
    for (const address of ["home", "home", "home", "a", "b"]) arrive(address);
    assert.deepEqual(evicted, []);
    assert.ok(arrive("c").isAdmitted);
    assert.deepEqual(evicted, ["a#1"]);
  });

  it("free their place when they leave or are known", () => {
    const { unknown, arrive, evicted } = unknowns();
    for (let round = 0; round < 10; round++) unknown.remove(arrive("a", "complete").connection);
    for (let count = 0; count < 4; count++) assert.ok(arrive("a", "complete").isAdmitted);
    assert.deepEqual(evicted, []);
  });

  it("count an IPv6 network of 64 bits and an IPv4 address in IPv6 form as one address", () => {
    const { arrive, evicted } = unknowns({ maxUnknownConnectionsPerAddress: 1 });
    arrive("2001:db8::1");
    arrive("2001:DB8:0:0:ffff::2");
    assert.deepEqual(evicted, ["2001:db8::1#1"]);
    arrive("2001:db8:0:1::1");
    assert.equal(evicted.length, 1);
    arrive("::ffff:10.0.0.1");
    arrive("10.0.0.1");
    assert.deepEqual(evicted.slice(1), ["::ffff:10.0.0.1#1"]);
  });

  it("are decided in steps that do not grow with what was admitted before", () => {
    let steps = 0;
    const unknown = new UnknownConnections({
      maxUnknownConnections: 1000,
      maxUnknownConnectionsPerAddress: 500,
      reservedForKnownAddresses: 0,
    });
    const connection = (address: string): UnknownConnection => ({
      address,
      progress: () => {
        steps++;
        return "silent";
      },
      evict: () => undefined,
    });
    for (let count = 0; count < 5000; count++)
      assert.equal(unknown.admit(connection(`a${count % 2}`)), undefined);
    assert.equal(steps, 4000);
  });
});

/**
 * What time a device believes, through any sequence of starts, waits, servers that lie and statements of its owner: a
 * server never moves what is learned for good further than the device's monotonic clock, and one honest server is
 * believed again, after at most one statement of the owner.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import "../../../helpers/property-seed.js";
import {
  beginTime,
  connectionMs,
  ownerStated,
  permanentMs,
  presentMs,
  serverLeft,
  serverStated,
  type LearnedTime,
} from "../../../../agent/identity/learned-time.js";

const dayMs = 86_400_000;
const startMs = Date.UTC(2026, 0, 1);
/** The validity of a server's certificate from its start on. */
const certificateMs = 90 * dayMs;
const maxDrift = 200e-6;

/** Any time that a clock may show. */
const times = fc.oneof(
  fc.integer({ min: 0, max: Date.UTC(2200, 0, 1) }),
  fc.integer({ min: startMs - 400 * dayMs, max: startMs + 4000 * dayMs }),
);
const durations = fc.oneof(fc.integer({ min: 0, max: 60_000 }), fc.integer({ min: 0, max: 400 * dayMs }));
type Step =
  | { readonly do: "wait"; readonly ms: number }
  | { readonly do: "off"; readonly ms: number }
  | { readonly do: "leave" }
  | { readonly do: "claim"; readonly timeMs: number }
  | { readonly do: "owner"; readonly timeMs: number };

const serverSteps: fc.Arbitrary<Step> = fc.oneof(
  fc.record({ do: fc.constant("wait" as const), ms: durations }),
  fc.record({ do: fc.constant("off" as const), ms: durations }),
  fc.record({ do: fc.constant("leave" as const) }),
  fc.record({ do: fc.constant("claim" as const), timeMs: times }),
);
const anySteps: fc.Arbitrary<Step> = fc.oneof(
  serverSteps,
  fc.record({ do: fc.constant("owner" as const), timeMs: times }),
);

/** A device with its clocks. */
class Device {
  trueMs = startMs;
  /** Time during which the device ran. */
  ranMs = 0;
  #monotonicMs = 0;
  number = 0;
  time: LearnedTime;

  constructor(storedMs: number) {
    this.time = beginTime({ timeMs: storedMs, number: 0 }, 0);
  }

  get permanentMs(): number {
    return permanentMs(this.time, this.#monotonicMs);
  }

  get connectionMs(): number {
    return connectionMs(this.time, this.#monotonicMs);
  }

  get presentMs(): number {
    return presentMs(this.time, this.#monotonicMs);
  }

  take(step: Step): void {
    const nowMs = this.#monotonicMs;
    if (step.do === "wait") this.#wait(step.ms);
    else if (step.do === "off") this.#start(step.ms);
    else if (step.do === "leave") this.time = serverLeft(this.time);
    else if (step.do === "claim") this.time = serverStated(this.time, step.timeMs, nowMs);
    else this.time = ownerStated(this.time, { number: ++this.number, timeMs: step.timeMs }, nowMs);
  }

  #wait(ms: number): void {
    this.#monotonicMs += ms;
    this.ranMs += ms;
    this.trueMs += ms;
  }

  #start(offMs: number): void {
    const stored = { timeMs: this.permanentMs, number: this.time.number };
    this.trueMs += offMs;
    this.#monotonicMs = 0;
    this.time = beginTime(stored, 0);
  }

  /** True if the device takes the certificate of an honest server that started just now. */
  get connects(): boolean {
    return this.connectionMs < this.trueMs + certificateMs;
  }
}

test("no server moves what is learned for good further than the monotonic clock", () => {
  fc.assert(
    fc.property(fc.array(serverSteps, { maxLength: 30 }), (steps) => {
      const device = new Device(startMs);
      for (const step of steps) {
        const before = device.permanentMs;
        device.take(step);
        assert.ok(device.permanentMs >= before, "learned time went back");
        assert.ok(device.permanentMs <= startMs + device.ranMs * (1 + maxDrift) + 1);
        assert.ok(device.presentMs >= device.permanentMs);
      }
      device.take({ do: "leave" });
      assert.ok(device.connects, "an honest server is refused");
    }),
  );
});

test("whatever was learned, an honest server is believed after at most one statement of the owner", () => {
  fc.assert(
    fc.property(times, fc.array(anySteps, { maxLength: 30 }), (storedMs, steps) => {
      const device = new Device(storedMs);
      for (const step of steps) device.take(step);
      device.take({ do: "leave" });
      if (!device.connects) device.take({ do: "owner", timeMs: device.trueMs });
      assert.ok(device.connects);
      device.take({ do: "claim", timeMs: device.trueMs });
      assert.ok(device.presentMs >= device.permanentMs);
      assert.ok(device.connects);
    }),
  );
});

test("a step that is too large counts while that server is connected, and for good once so much time passed", () => {
  fc.assert(
    fc.property(fc.integer({ min: 1, max: 400 * dayMs }), (aheadMs) => {
      const device = new Device(startMs);
      device.take({ do: "claim", timeMs: startMs + aheadMs });
      assert.equal(device.presentMs, startMs + aheadMs);
      assert.equal(device.connectionMs, startMs + aheadMs);
      assert.equal(device.permanentMs, startMs);
      device.take({ do: "leave" });
      assert.equal(device.presentMs, startMs + aheadMs);
      assert.equal(device.connectionMs, startMs);
      device.take({ do: "wait", ms: aheadMs });
      assert.equal(device.permanentMs, startMs + aheadMs);
    }),
  );
});

test("an older statement of the owner, or the same one again, changes nothing", () => {
  fc.assert(
    fc.property(fc.integer({ min: 0, max: 5 }), times, (number, timeMs) => {
      const time = beginTime({ timeMs: startMs, number: 5 }, 0);
      assert.deepEqual(ownerStated(time, { number, timeMs }, 0), time);
    }),
  );
});

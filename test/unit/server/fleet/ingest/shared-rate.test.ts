/** Limits that several flows share, by a clock that the test drives. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { SendRates } from "../../../../../server/fleet/ingest/downloads/send-rates.js";
import { SharedRate } from "../../../../../server/fleet/ingest/downloads/shared-rate.js";
import { sha256 } from "../../../../../shared/tensor/hash.js";
import { nextEventLoopTurn } from "../../../../helpers/agent-test-environment.js";
import { manualClock, type ManualClock } from "../../../../helpers/manual-clock.js";

/** Sends blocks one after the other for as long as the clock runs. */
class Flow {
  sent = 0;
  #isEnded = false;
  constructor(
    private readonly take: (bytes: number) => Promise<void>,
    private readonly blockBytes: number,
  ) {
    void this.#run();
  }
  end(): void {
    this.#isEnded = true;
  }
  async #run(): Promise<void> {
    while (!this.#isEnded) {
      await this.take(this.blockBytes);
      this.sent += this.blockBytes;
    }
  }
}

async function pass(clock: ManualClock, ms: number): Promise<void> {
  for (let at = 0; at < ms; at += 10) {
    clock.advance(10);
    await nextEventLoopTurn();
  }
}

const isNear = (actual: number, expected: number): void => {
  assert.ok(Math.abs(actual - expected) <= 0.1 * expected, `${actual} instead of about ${expected}`);
};

describe("a rate that flows share", () => {
  it("is kept, and each gets the same bytes, whatever the size of its blocks", async () => {
    const clock = manualClock();
    const rate = new SharedRate(() => 100_000, clock);
    const flows = [
      new Flow((bytes) => rate.take("small", bytes), 1_000),
      new Flow((bytes) => rate.take("large", bytes), 16_000),
    ];
    await pass(clock, 10_000);
    for (const { sent } of flows) isNear(sent, 500_000);
    // One that comes later has no claim to what the others were sent before.
    const late = new Flow((bytes) => rate.take("late", bytes), 4_000);
    await pass(clock, 9_000);
    isNear(late.sent, 300_000);
    for (const flow of [...flows, late]) flow.end();
    for (const name of ["small", "large", "late"]) rate.end(name);
    assert.equal(rate.isIdle, true);
  });

  it("may change while flows wait, and be lifted", async () => {
    const clock = manualClock();
    let limit: number | null = 1_000;
    const rate = new SharedRate(() => limit, clock);
    const flow = new Flow((bytes) => rate.take("a", bytes), 500);
    await pass(clock, 20_000);
    isNear(flow.sent, 20_000);
    flow.end();
    limit = null;
    await pass(clock, 1_000);
    await rate.take("b", 1e12);
  });
});

it("a flow that ends lets go of what it waits for, and takes nothing from the others", async () => {
  const clock = manualClock();
  const rate = new SharedRate(() => 1_000, clock);
  const done: string[] = [];
  for (const flow of ["first", "ending", "other", "ending", "last"])
    void rate.take(flow, 1_000).then(() => done.push(flow));
  await nextEventLoopTurn();
  assert.deepEqual(done, ["first"]);
  rate.end("ending");
  await nextEventLoopTurn();
  assert.deepEqual(done, ["first", "ending", "ending"]);
  await pass(clock, 3_000);
  assert.deepEqual(done.slice(3), ["other", "last"]);
});

it("what is sent keeps to the limits of device, rollout and fleet together", async () => {
  const clock = manualClock();
  const versionId = sha256("version");
  const limits: Readonly<Record<string, number>> = { slow: 10_000 };
  const rates = new SendRates({
    repository: {
      device: (device) =>
        ({
          settings: {
            desired: limits[device] === undefined ? {} : { "fetch.bytesPerSecond": limits[device] },
          },
        }) as unknown as ReturnType<ConstructorParameters<typeof SendRates>[0]["repository"]["device"]>,
      stagedFor: (device) =>
        device === "alone" ? [] : [{ line: "a", versionId, rollout: "r", maxBytesPerSecond: 60_000 }],
    },
    clock,
    fleetBytesPerSecond: 80_000,
  });
  const flows = Object.fromEntries(
    ["slow", "other", "alone"].map((device) => [device, new Flow(rates.of(device, versionId), 1_000)]),
  );
  await pass(clock, 10_000);
  const sent = (device: string): number => flows[device]?.sent ?? 0;
  isNear(sent("slow"), 100_000);
  isNear(sent("slow") + sent("other") + sent("alone"), 800_000);
  assert.ok(sent("slow") + sent("other") <= 610_000);
  // The two that want more than they get of the fleet's rate share it alike.
  isNear(sent("other"), sent("alone"));
  for (const [device, flow] of Object.entries(flows)) {
    flow.end();
    rates.end(device);
  }
});

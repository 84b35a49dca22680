/** Runs a simulation with kills of the server until every version is released, and reads all of them back. */
import assert from "node:assert/strict";
import { tensorOfSource } from "../../../shared/tensor/tensor.js";
import type { Simulation } from "../../helpers/ingest-simulation.js";
import type { SimulatedDevice } from "../../helpers/simulated-device.js";

export interface RunCounts {
  kills: number;
  messages: number;
}

/** @param more what else happens after each message or pause; it may count kills of its own */
export async function runUntilReleased(
  simulation: Simulation,
  devices: readonly SimulatedDevice[],
  more: (counts: RunCounts) => Promise<void>,
): Promise<RunCounts> {
  const { choose } = simulation;
  const { seed } = simulation.options;
  const counts: RunCounts = { kills: 0, messages: 0 };
  let idle = 0;
  while (devices.some((device) => device.unreleased.length > 0)) {
    assert.ok(
      counts.messages < 20_000 && idle < 3_000,
      `seed ${seed}: no end after ${counts.messages} messages; lacking ${devices.map(({ unreleased }) => unreleased.length).join(", ")}; refusals ${devices.flatMap(({ refusals }) => refusals.map(({ code }) => code)).join(", ")}`,
    );
    if (!simulation.isUp) await simulation.start();
    for (const device of devices)
      if (!device.isConnected) {
        await simulation.connect(device);
        await device.announce(choose(4) > 0);
      }
    await simulation.settle(1 + choose(4));
    if (simulation.messagesInFlight > 0) {
      counts.messages++;
      await simulation.deliver();
    } else {
      idle++;
      await simulation.settle();
      // No message is in flight: time passes, and sometimes a device announces again what it waits for.
      if (simulation.messagesInFlight === 0) simulation.clock.advance(5_000 + choose(20_000));
      if (choose(4) === 0) for (const device of devices) await device.announce();
    }
    if (choose(60) === 0 && counts.kills < 12) {
      simulation.kill();
      counts.kills++;
      await simulation.settle();
    }
    await more(counts);
  }
  if (!simulation.isUp) await simulation.start();
  return counts;
}

/** Every model of the devices comes back with its root and its bytes, and the store is whole. */
export async function assertAllExact(
  { repository }: Simulation,
  devices: readonly SimulatedDevice[],
): Promise<void> {
  for (const { models, store } of devices)
    for (const { versionId, record, leaves } of models) {
      const recovered = await repository.recover(versionId);
      assert.equal(recovered.verifiedRoot, record.root);
      for (const [index, source] of recovered.sources.entries())
        assert.deepEqual(
          (await tensorOfSource(source)).bytes,
          (await tensorOfSource(store.openTensor(leaves[index]?.tensor ?? versionId))).bytes,
        );
    }
  assert.deepEqual((await repository.check()).problems, []);
}

/** Runs consecutive seeds; one that fails is printed. */
export async function runSeeds<Figures>(
  { first, runs }: { readonly first: number; readonly runs: number },
  run: (seed: number) => Promise<Figures>,
): Promise<readonly Figures[]> {
  const all: Figures[] = [];
  for (let seed = first; seed < first + runs; seed++)
    all.push(
      await run(seed).catch((error: unknown) => {
        console.log(`failed with STEMMA_TEST_SEED=${seed}`);
        throw error;
      }),
    );
  return all;
}

export function sumOf<Figures>(all: readonly Figures[], of: (figures: Figures) => number): number {
  return all.reduce((sum, figures) => sum + of(figures), 0);
}

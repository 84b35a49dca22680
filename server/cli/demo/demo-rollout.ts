/**
 * Rollouts in the demo: the server trains two updates, one on the laboratory's data and one on a vehicle's. The fleet's
 * owner signs each, since no vehicle would install it otherwise, and it goes to every vehicle of a line, one by one.
 * Each vehicle measures an update on its own held-out samples before it switches; where the update is worse, the
 * rollout stops. Then each rollout is undone, and every vehicle runs what it ran before.
 */
import { readlink } from "node:fs/promises";
import { basename, join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { StemmaError } from "../../../shared/errors.js";
import type { RolloutDetailAnswer } from "../../interface/api/rollouts/rollout-definitions.js";
import { changesOf } from "../../fleet/rollout/rollout-text.js";
import type { DemoFolders } from "./demo-home.js";
import type { DemoOwner } from "./demo-owner.js";
import { demoFleet, type DemoPlan } from "./demo-plan.js";
import { trainModel, type ServerTraining, type Trainer } from "./train-models.js";

export interface RolloutDemo extends Trainer {
  readonly plan: DemoPlan;
  readonly folders: DemoFolders;
  readonly fleetOwner: Pick<DemoOwner, "release">;
}

/** Between two looks. */
const lookMs = 100;
/** The demo fails where a rollout or a return has not ended after this long. It takes seconds. */
const endTimeoutMs = 120_000;
/** Fraction of the state of health by which the update may be worse on a vehicle's samples. */
const margin = 0.02;

/**
 * @returns what happened, in a few sentences
 * @throws CHECK_FAILED where a vehicle does not run again what it ran before, TIMED_OUT
 */
export async function demonstrateRollouts(demo: RolloutDemo): Promise<string> {
  const { base, owner, vehicles } = updatedLine(demo.plan);
  const { name, recipe, dataName, dataset } = base;
  const update = { base: name, recipe, parameters: owner.parameters, seed: "3" };
  const inLaboratory = await rollOut(demo, owner.line, vehicles, {
    ...update,
    name: "soh-from-laboratory",
    text: `an update of ${name} on the laboratory's data`,
    dataset,
    dataName,
  });
  const onVehicle = await rollOut(demo, owner.line, vehicles, {
    ...update,
    name: "soh-from-vehicle",
    text: `an update of ${name} on the data of ${owner.device}`,
    dataset: owner.dataset,
    dataName: `${owner.line}-of-${owner.device}`,
  });
  return [
    "Updates that the server trained and the fleet's owner signed, measured by each\nvehicle on its own held-out samples first:",
    describeRollout(inLaboratory),
    describeRollout(onVehicle),
    "Both were undone: every vehicle runs again what it ran before.",
  ].join("\n");
}

/** Trains an update, gives it to the vehicles one by one, and takes it back. @returns how the rollout ended */
async function rollOut(
  demo: RolloutDemo,
  line: string,
  vehicles: readonly string[],
  training: ServerTraining,
): Promise<RolloutDetailAnswer> {
  const { operations, watch } = demo;
  const ranBefore = await runningVersions(demo, line, vehicles);
  const { name, version } = await trainModel(demo, training);
  const rollout = `${name}-${version}`;
  const released = await releaseUpdate(demo, { model: `${name}:${version}`, line, vehicles });
  await operations.createRollout({
    fleet: demoFleet,
    name: rollout,
    model: `release:${released}`,
    line,
    select: `line=${line}`,
    policy: { waves: vehicles.map(() => "1"), margin },
    start: true,
  });
  watch.printLine(`rollout ${rollout} begins: to ${vehicles.join(" and ")}, one by one`);
  const ended = await followRollout(demo, rollout);
  await operations.undoRollout({ fleet: demoFleet, rollout, because: "the demo shows the return" });
  await untilReturned(demo, line, ranBefore);
  watch.printLine(`${rollout} is undone: every vehicle runs what it ran before`);
  return ended;
}

/** The owner signs the update, which the vehicles would refuse otherwise: nothing but the server made it. */
async function releaseUpdate(
  { operations, watch, fleetOwner }: RolloutDemo,
  {
    model,
    line,
    vehicles,
  }: { readonly model: string; readonly line: string; readonly vehicles: readonly string[] },
): Promise<string> {
  const { refusing } = await operations.planRollout({
    fleet: demoFleet,
    name: "unsigned",
    ...{ model, line, select: `line=${line}` },
  });
  const released = await fleetOwner.release(model);
  watch.printLine(
    refusing.length === 0
      ? `the owner signs ${model}`
      : `${refusing.length} of ${vehicles.length} vehicles would refuse ${model}: the owner signs it`,
  );
  return released;
}

/** Ends what an interrupted demo left open, and returns the vehicles that had switched. */
export async function undoOpenRollouts({ operations, watch }: Trainer): Promise<void> {
  for (const { name: rollout, phase } of await operations.rollouts({ fleet: demoFleet })) {
    if (phase === "undone" || phase === "aborted") continue;
    await operations.undoRollout({ fleet: demoFleet, rollout, because: "its demo was interrupted" });
    watch.printLine(`the rollout ${rollout} of an interrupted run is undone`);
  }
}

/** Whether a rollout was taken back, and the vehicle has not yet returned to what it ran before. */
export async function awaitsReturn({ operations }: Trainer, device: string): Promise<boolean> {
  const { assigned = {}, active } = await operations.device({ fleet: demoFleet, device });
  return Object.entries(assigned).some(([line, { versionId, atMs, rollout }]) => {
    const runs = active[line];
    return rollout !== undefined && runs?.versionId !== versionId && (runs?.serverAtMs ?? 0) < atMs;
  });
}

/** @throws TIMED_OUT */
export async function untilNoReturn(demo: Trainer, device: string): Promise<void> {
  const deadlineMs = Date.now() + endTimeoutMs;
  while (await awaitsReturn(demo, device))
    await nextLook(demo, deadlineMs, `${device} has not returned to what it ran before`);
}

/** The base that is updated, the vehicle whose data it is updated on, and all vehicles of that line. */
function updatedLine({ vehicles, bases }: DemoPlan): {
  readonly base: DemoPlan["bases"][number];
  readonly owner: DemoPlan["vehicles"][number]["lines"][number] & { readonly device: string };
  readonly vehicles: readonly string[];
} {
  for (const { device, lines, reportsProvenance } of vehicles)
    for (const line of reportsProvenance ? lines : []) {
      const base = bases.find(({ name }) => name === line.base);
      const sharing = vehicles.filter((vehicle) => vehicle.lines.some((other) => other.line === line.line));
      if (base !== undefined)
        return { base, owner: { ...line, device }, vehicles: sharing.map((vehicle) => vehicle.device) };
    }
  throw new StemmaError("CHECK_FAILED", "No vehicle of the demo sends its samples; correct its plan.");
}

/** Follows the rollout until it ends, or stops where it is worse. */
async function followRollout(demo: RolloutDemo, rollout: string): Promise<RolloutDetailAnswer> {
  const { operations, watch } = demo;
  const deadlineMs = Date.now() + endTimeoutMs;
  let before: RolloutDetailAnswer | undefined;
  for (;;) {
    const now = await operations.rollout({ fleet: demoFleet, rollout });
    for (const change of changesOf(before, now)) watch.printLine(change);
    before = now;
    const isFailed = now.devices.worse + now.devices.failed > 0;
    if (now.phase === "paused" && !isFailed) watch.printLine(now.because);
    const isOver = now.phase === "paused" || now.phase === "done";
    if (isOver && now.devices.switched === now.devices.passed) return now;
    await nextLook(demo, deadlineMs, `the rollout ${rollout} is ${now.phase}`);
  }
}

/** What the software of each vehicle reads: the version that the link `current/LINE` of its agent names. */
async function runningVersions(
  { folders }: RolloutDemo,
  line: string,
  vehicles: readonly string[],
): Promise<ReadonlyMap<string, string>> {
  const versionOf = async (device: string): Promise<[string, string]> => [
    device,
    basename(await readlink(join(folders.agents, device, "current", line))),
  ];
  return new Map(await Promise.all(vehicles.map(versionOf)));
}

async function untilReturned(
  demo: RolloutDemo,
  line: string,
  ranBefore: ReadonlyMap<string, string>,
): Promise<void> {
  const deadlineMs = Date.now() + endTimeoutMs;
  for (;;) {
    const runs = await runningVersions(demo, line, [...ranBefore.keys()]);
    const others = [...runs].filter(([device, version]) => version !== ranBefore.get(device));
    if (others.length === 0) return;
    const named = others.map(([device]) => device).join(", ");
    await nextLook(demo, deadlineMs, `${named} does not yet run again what it ran before`);
  }
}

/** @throws TIMED_OUT; what the signal aborts with */
async function nextLook(
  { options: { signal } }: Pick<Trainer, "options">,
  deadlineMs: number,
  state: string,
): Promise<void> {
  if (Date.now() > deadlineMs)
    throw new StemmaError(
      "TIMED_OUT",
      `After ${endTimeoutMs / 1000} s ${state}. The log of every process is in the demo's logs folder. Run the demo again; it undoes the rollout first.`,
    );
  await pause(lookMs, undefined, { signal }).catch(() => {
    signal.throwIfAborted();
  });
}

/** What came of each vehicle, for the end of the demo. Pure. */
export function describeRollout({
  model,
  phase,
  members,
}: Pick<RolloutDetailAnswer, "model" | "phase" | "members">): string {
  const outcomes = members.map(({ device, verdict, switched, compared }) => {
    const losses = compared === undefined ? "" : ` (mean loss ${signed(compared.meanDifference)})`;
    return switched
      ? `${device} switched${losses}`
      : `${verdict ?? "unmeasured"} on ${device}${losses}, which kept its own`;
  });
  const end = phase === "paused" ? ["the rollout stopped"] : [];
  return [`  ${model}:`, ...[...outcomes, ...end].map((line) => `    ${line}`)].join("\n");
}

function signed(value: number): string {
  return `${value < 0 ? "−" : "+"}${Math.abs(value).toPrecision(2)}`;
}

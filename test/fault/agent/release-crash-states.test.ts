/** A crash at any moment leaves a device with releases that it had proven, or its pinned root; never with more. */
import assert from "node:assert/strict";
import { it } from "node:test";
import { pinOf, type ReleasePin } from "../../../agent/releases/release-pin.js";
import { ReleaseTrust } from "../../../agent/releases/release-trust.js";
import { isStemmaError } from "../../../shared/errors.js";
import type { Files } from "../../../shared/ports.js";
import type { Hash } from "../../../shared/tensor/tensor.js";
import { partsOf } from "../../../shared/trust/releases/release-set.js";
import type { MetadataSet } from "../../../shared/trust/releases/trusted-releases.js";
import { checkCrashStates } from "../../helpers/crash-states.js";
import { fleetOwner, manifestFor, startMs } from "../../helpers/release-owner.js";

interface Mark {
  readonly own?: Hash;
  /** Version of the targets that were taken. */
  readonly targets?: number;
}

const owner = fleetOwner();
const pin: ReleasePin = { root: owner.roots[0] ?? "", policy: "required" };
const sets: readonly MetadataSet[] = [
  owner.release("winter", manifestFor("1")),
  owner.release("spring", manifestFor("2")),
  owner.rotate({ root: ["a"], targets: ["e"], online: ["f"] }),
];
const version = (digit: string): Hash => digit.repeat(64) as Hash;

async function openTrust(files: Files): Promise<ReleaseTrust> {
  return await ReleaseTrust.open({
    files,
    home: "/device",
    pin: await pinOf(files, "/device", pin),
    policy: "required",
    nowMs: () => startMs,
    onEvent: () => undefined,
  });
}

async function work(files: Files, mark: (mark: Mark) => void): Promise<void> {
  const trust = await openTrust(files);
  for (const [index, set] of sets.entries()) {
    for (const part of partsOf(set)) await trust.receive(part);
    mark({ targets: trust.status.targets ?? 0 });
    const own = version(String(7 + index));
    await trust.noteOwn([own]);
    mark({ own });
  }
}

async function check(files: Files, marks: readonly Mark[]): Promise<void> {
  const trust = await openTrust(files);
  const taken = Math.max(0, ...marks.map(({ targets = 0 }) => targets));
  assert.ok((trust.status.targets ?? 0) >= taken, "an update that was taken is not lost");
  for (const { own } of marks)
    if (own !== undefined) await trust.requireInstallable({ versionId: own, isOwn: false });
  await assert.rejects(trust.requireInstallable({ versionId: version("3"), isOwn: false }), (error) =>
    isStemmaError(error),
  );
  for (const part of partsOf(sets[2] ?? owner.set())) await trust.receive(part);
  await trust.requireInstallable({ versionId: version("1"), isOwn: false });
  assert.equal(trust.status.root, 2);
}

it("keeps what was proven after a crash at any moment", async () => {
  const full = process.env["STEMMA_TEST_FULL"] === "1";
  await checkCrashStates<Mark>({
    name: "releases of a device",
    run: work,
    check,
    ...(full ? {} : { states: 120 }),
  });
});

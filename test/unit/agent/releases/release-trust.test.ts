/** What a device installs by the releases that it trusts, over restarts, damaged files and lying servers. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { DeviceTime } from "../../../../agent/identity/device-time.js";
import { policyOf, pinByHand, pinOf, type ReleasePin } from "../../../../agent/releases/release-pin.js";
import { ReleaseTrust } from "../../../../agent/releases/release-trust.js";
import { silentLog } from "../../../../shared/adapters/node-ports.js";
import type { Files } from "../../../../shared/ports.js";
import type { Hash } from "../../../../shared/tensor/tensor.js";
import { revokeRelease } from "../../../../shared/trust/releases/release-change.js";
import { partsOf } from "../../../../shared/trust/releases/release-set.js";
import type { MetadataSet } from "../../../../shared/trust/releases/trusted-releases.js";
import { manualClock } from "../../../helpers/manual-clock.js";
import { memoryFiles } from "../../../helpers/files/memory-files.js";
import {
  dayMs,
  fleetOwner,
  manifestFor,
  startMs,
  validity,
  type FleetOwner,
} from "../../../helpers/release-owner.js";

const version = (digit: string): Hash => digit.repeat(64) as Hash;
const others = (digit: string) => ({ versionId: version(digit), isOwn: false });
const home = "/device";

class Device {
  readonly events: string[] = [];
  /** The time that the device believes; a test that needs more sets its clock and server. */
  nowMs = startMs;
  now = (): number => this.nowMs;
  trust!: ReleaseTrust;
  private constructor(
    readonly files: Files,
    readonly pin: ReleasePin | undefined,
  ) {}

  static async of(
    owner: FleetOwner | undefined,
    policy: "required" | "accepted" = "required",
  ): Promise<Device> {
    const pin = owner && { root: owner.roots[0] ?? "", policy };
    const device = new Device(memoryFiles(), pin);
    await device.restart(policy);
    return device;
  }
  async restart(policy: "required" | "accepted" | "off" = "required"): Promise<void> {
    this.trust = await ReleaseTrust.open({
      files: this.files,
      home,
      pin: this.pin,
      policy,
      nowMs: () => this.now(),
      onEvent: (name) => this.events.push(name),
    });
  }
  async receive(set: MetadataSet): Promise<void> {
    for (const part of partsOf(set)) await this.trust.receive(part);
  }
}

describe("releases on a device", () => {
  it("compromised director alone: what only the server signed is refused, also after a restart", async () => {
    const owner = fleetOwner();
    const device = await Device.of(owner);
    await device.receive(owner.release("winter", manifestFor("1")));
    await device.trust.requireInstallable(others("1"));
    await assert.rejects(device.trust.requireInstallable(others("2")), { code: "RELEASE_REQUIRED" });
    await device.restart();
    await device.trust.requireInstallable(others("1"));
    await assert.rejects(device.trust.requireInstallable(others("2")), { code: "RELEASE_REQUIRED" });
    await device.trust.requireInstallable({ versionId: version("2"), isOwn: true });
  });

  it("revoked: a device that heard of it does not install it, staged or not, whatever else it accepts", async () => {
    const owner = fleetOwner();
    for (const policy of ["required", "accepted"] as const) {
      const device = await Device.of(owner, policy);
      const name = `poison-${policy}`;
      await device.receive(owner.release(name, manifestFor("4")));
      await device.trust.requireInstallable(others("4"));
      const revoked = revokeRelease("plant", owner.published(), { name, because: "poisoned" }, validity);
      await device.receive(owner.publish(revoked));
      await assert.rejects(device.trust.requireInstallable(others("4")), { code: "RELEASE_REVOKED" });
      await device.restart(policy);
      await assert.rejects(device.trust.requireInstallable({ ...others("4"), isOwn: true }), {
        code: "RELEASE_REVOKED",
      });
    }
  });

  it("freeze: a server that states an old time keeps nothing valid", async () => {
    const owner = fleetOwner();
    const device = await Device.of(owner);
    const clock = manualClock();
    const enrolment = { generation: 1, ownerCertificate: { authority: "plant", issuedAtMs: startMs } };
    const open = (): Promise<DeviceTime> =>
      DeviceTime.open({ files: device.files, home, enrolment, clock, log: silentLog() });
    await device.files.makeFolder(home);
    let time = await open();
    device.now = () => time.presentMs;
    await device.receive(owner.release("winter", manifestFor("1")));
    clock.advance(91 * dayMs);
    await assert.rejects(device.trust.requireInstallable(others("1")), { code: "RELEASE_EXPIRED" });
    await time.storeIfLater();
    for (const back of [startMs, 0]) {
      time = await open();
      time.serverStated(back);
      await device.restart();
      await assert.rejects(device.trust.requireInstallable(others("1")), { code: "RELEASE_EXPIRED" });
    }
  });

  it("withheld targets: a server that sends each new timestamp and snapshot alone keeps nothing installable", async () => {
    const owner = fleetOwner();
    const device = await Device.of(owner);
    await device.receive(owner.release("winter", manifestFor("1")));
    const { targets } = owner.set();
    await device.trust.requireInstallable(others("1"));
    owner.publish(
      revokeRelease("plant", owner.published(), { name: "winter", because: "poisoned" }, validity),
    );
    await assert.rejects(device.receive({ ...owner.set(), targets }), { code: "RELEASE_METADATA_INVALID" });
    for (const isAgain of [false, true]) {
      if (isAgain) await device.restart();
      await assert.rejects(device.trust.requireInstallable(others("1")), {
        code: "RELEASE_METADATA_INVALID",
      });
    }
    await device.receive(owner.set());
    await assert.rejects(device.trust.requireInstallable(others("1")), { code: "RELEASE_REVOKED" });
  });

  it("slow retrieval and endless data: parts that never complete, or never end, change nothing", async () => {
    const owner = fleetOwner();
    const device = await Device.of(owner);
    const before = owner.release("winter", manifestFor("1"));
    await device.receive(before);
    const big = { ...owner.release("spring", manifestFor("2")), targets: "x".repeat(200 * 1024) };
    const [first] = partsOf(big);
    assert.ok(first !== undefined && first.parts > 1);
    for (let again = 0; again < 3; again++) assert.equal(await device.trust.receive(first), false);
    await assert.rejects(device.trust.receive({ ...first, parts: 1_000_000 }), {
      code: "RELEASE_METADATA_INVALID",
    });
    device.trust.opened();
    await device.trust.requireInstallable(others("1"));
    await assert.rejects(device.trust.requireInstallable(others("2")), { code: "RELEASE_REQUIRED" });
    // Parts under another set's name do not add up.
    const [mixed] = partsOf(owner.set());
    assert.ok(mixed !== undefined);
    await assert.rejects(device.trust.receive({ ...mixed, set: version("a") }), {
      code: "RELEASE_METADATA_INVALID",
    });
  });

  it("an offer's manifest must be the signed one", async () => {
    const owner = fleetOwner();
    const device = await Device.of(owner);
    await device.receive(owner.release("winter", manifestFor("1")));
    const record = { fleet: "plant" } as never;
    const release = { name: "winter", manifest: Buffer.from("{}") };
    await assert.rejects(device.trust.requireOffered(others("1"), record, { release }), {
      code: "RELEASE_MISMATCH",
    });
    const unknown = { name: "summer", manifest: owner.manifestBytes("winter") };
    await assert.rejects(device.trust.requireOffered(others("1"), record, { release: unknown }), {
      code: "RELEASE_UNKNOWN",
    });
  });

  it("an offer's input pipeline must be the one that the manifest names, or a version needs no release", async () => {
    const owner = fleetOwner();
    const [signed, other] = ["5", "6"].map((digit) => digit.repeat(64) as Hash);
    const manifest = manifestFor("1", { pipeline: signed });
    const { versionId, fleet, contentId, root, architecture } = manifest;
    const record = { fleet, contentId, root, architecture } as never;
    const device = await Device.of(owner);
    await device.receive(owner.release("winter", manifest));
    const release = { name: "winter", manifest: owner.manifestBytes("winter") };
    const ask = (pipeline: Hash | undefined, isOwn = false, brought = true): Promise<Hash | undefined> =>
      device.trust.requireOffered({ versionId, isOwn }, record, {
        release: brought ? release : undefined,
        pipeline: pipeline && { id: pipeline },
      });
    assert.deepEqual([await ask(signed), await ask(undefined)], [signed, undefined]);
    await assert.rejects(ask(other), { code: "RELEASE_MISMATCH" });
    assert.equal(await ask(signed, false, false), undefined, "the server's word alone");
    assert.equal(await ask(other, true), undefined, "of its own version it knows better");
  });

  it("a torn or changed file falls back to the pinned root, and the server's set brings the rest again", async () => {
    const owner = fleetOwner();
    const device = await Device.of(owner);
    const set = owner.release("winter", manifestFor("1"));
    await device.receive(set);
    const path = `${home}/releases/trusted.json`;
    const whole = await device.files.read(path);
    for (const bytes of [
      whole.subarray(0, whole.length / 2),
      Buffer.alloc(whole.length),
      Buffer.from(Buffer.from(whole).toString().replaceAll("1".repeat(64), "2".repeat(64))),
    ]) {
      await device.files.remove(path);
      const file = await device.files.open(path, "create");
      await file.write(bytes, 0);
      await file.close();
      await device.restart();
      assert.equal(device.events.pop(), "releases-damaged");
      await assert.rejects(device.trust.requireInstallable(others("1")), {
        code: "RELEASE_METADATA_INVALID",
      });
      assert.equal(device.trust.birth().releaseSet, undefined);
      await device.receive(set);
      await device.trust.requireInstallable(others("1"));
    }
  });

  it("knows the versions that it made, after it has deleted them", async () => {
    const device = await Device.of(fleetOwner());
    await device.trust.noteOwn([version("7"), version("8")]);
    await device.trust.noteOwn([version("8"), version("9")]);
    const path = `${home}/releases/own-versions`;
    const file = await device.files.open(path, "append");
    await file.truncate(2 * 32 + 7);
    await file.close();
    await device.restart();
    await device.trust.requireInstallable(others("7"));
    await assert.rejects(device.trust.requireInstallable(others("9")));
    await device.trust.noteOwn([version("9")]);
    await device.restart();
    for (const digit of ["7", "8", "9"]) await device.trust.requireInstallable(others(digit));
  });

  it("without a root nothing is released, and a server cannot weaken what was pinned", async () => {
    const device = await Device.of(undefined);
    await assert.rejects(device.trust.requireInstallable(others("1")), { code: "RELEASE_REQUIRED" });
    const owner = fleetOwner();
    const thief = fleetOwner({ seeds: { root: ["9"], targets: ["9"], online: ["9"] } });
    const files = memoryFiles();
    const own: ReleasePin = { root: owner.roots[0] ?? "", policy: "required" };
    assert.deepEqual(await pinOf(files, home, own), own);
    const offered: ReleasePin = { root: thief.roots[0] ?? "", policy: "off" };
    const pin = await pinOf(files, home, offered);
    assert.deepEqual(pin, own);
    assert.equal(policyOf(undefined, pin, offered.policy), "required");
    assert.equal(policyOf(undefined, { ...own, policy: "accepted" }, "required"), "required");
    assert.equal(policyOf("off", pin, "required"), "off");
    await assert.rejects(pinByHand(files, home, { ...offered, policy: "required" }, false), {
      code: "NOT_ALLOWED",
    });
    assert.equal(await pinByHand(files, home, { ...offered, policy: "required" }, true), "pinned");
  });
});

// What of the time a device keeps over its starts, and what begins it again.
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { DeviceTime, forgetTime } from "../../../../agent/identity/device-time.js";
import { openDeviceTime } from "../../../../agent/releases/trusted-file.js";
import { silentLog } from "../../../../shared/adapters/node-ports.js";
import { makeFolderDurably } from "../../../../shared/files/make-folder.js";
import { certificatesBeginMs } from "../../../../shared/trust/certificates/verify-chain.js";
import { writeDurably } from "../../../../shared/files/durable-write.js";
import { memoryFiles } from "../../../helpers/files/memory-files.js";
import { manualClock } from "../../../helpers/manual-clock.js";

const dayMs = 86_400_000;
const issuedMs = Date.UTC(2026, 0, 1);
const home = "/device";

/** A device whose process starts again with each `start`. */
class Device {
  readonly files = memoryFiles();
  generation = 1;
  issuedMs = issuedMs;
  clock = manualClock();
  time!: DeviceTime;

  async start(): Promise<DeviceTime> {
    this.clock = manualClock();
    const { files, generation, clock } = this;
    await files.makeFolder(home);
    const ownerCertificate = { authority: "plant", issuedAtMs: this.issuedMs };
    const enrolment = { generation, ownerCertificate };
    return (this.time = await openDeviceTime({ files, home, enrolment, clock, log: silentLog() }));
  }

  async stopAfter(ms: number): Promise<void> {
    this.clock.advance(ms);
    await this.time.storeIfLater(0);
  }
}

describe("the time that a device believes", () => {
  it("begins at its enrolment and goes on over starts, also without a server", async () => {
    const device = new Device();
    assert.equal((await device.start()).permanentMs, issuedMs);
    await device.stopAfter(10 * dayMs);
    assert.equal((await device.start()).permanentMs, issuedMs + 10 * dayMs);
  });

  it("keeps nothing of a server whose clock is ahead, nor of what that server renews", async () => {
    const device = new Device();
    const time = await device.start();
    time.serverStated(issuedMs + 300 * dayMs);
    assert.equal(time.presentMs, issuedMs + 300 * dayMs);
    // A renewal writes the server's time into the enrolment.
    device.issuedMs = issuedMs + 300 * dayMs;
    await device.stopAfter(dayMs);
    const later = await device.start();
    assert.equal(later.presentMs, issuedMs + dayMs);
  });

  it("a statement of the owner is durable and counts once", async () => {
    const device = new Device();
    const time = await device.start();
    await device.stopAfter(100 * dayMs);
    assert.equal(await time.ownerStated({ number: 1, timeMs: issuedMs + dayMs }), true);
    const later = await device.start();
    assert.equal(later.permanentMs, issuedMs + dayMs);
    assert.equal(await later.ownerStated({ number: 1, timeMs: issuedMs }), false);
    assert.equal(later.permanentMs, issuedMs + dayMs);
  });

  it("another enrolment replaces it, and `agent trust --replace` forgets it", async () => {
    const device = new Device();
    await device.start();
    await device.stopAfter(400 * dayMs);
    device.generation = 2;
    assert.equal((await device.start()).permanentMs, issuedMs);
    await forgetTime(device.files, home);
    await device.stopAfter(dayMs);
    assert.equal((await device.start()).permanentMs, certificatesBeginMs);
    await device.stopAfter(dayMs);
    assert.equal((await device.start()).permanentMs, certificatesBeginMs + dayMs);
  });

  it("continues what an agent had learned that kept it with the releases", async () => {
    const device = new Device();
    const latestMs = issuedMs + 50 * dayMs;
    const none = { set: null, timestamp: null, snapshot: null, targets: null };
    const before = JSON.stringify({ format: 1, pin: "", latestMs, root: "", ...none });
    await makeFolderDurably(device.files, `${home}/releases`);
    await writeDurably(device.files, `${home}/releases/trusted.json`, Buffer.from(before));
    assert.equal((await device.start()).permanentMs, latestMs);
  });

  it("a damaged file begins again at the enrolment", async () => {
    const device = new Device();
    await device.start();
    await device.stopAfter(dayMs);
    await writeDurably(device.files, `${home}/time.json`, Buffer.from("{"));
    assert.equal((await device.start()).permanentMs, issuedMs);
  });
});

/**
 * What every device of a fleet has to do, whoever wrote it: docs/protocol.md, seen from a server. Each device is a
 * program of its own, so that it can be killed at any moment.
 */
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { it, type TestContext } from "node:test";
import { isStemmaError } from "../../../../shared/errors.js";
import { keyOfSeed } from "../../../../shared/trust/keys.js";
import {
  parseRestoreFile,
  restoreFileText,
  signRestore,
} from "../../../../shared/trust/releases/restore-approval.js";
import { pollUntil } from "../../../helpers/poll-until.js";
import { ownerSeed, publishFirst, release, revoke, stateTime } from "../../../helpers/publish-releases.js";
import { watchBlocks } from "../../../helpers/served-blocks.js";
import { makeAuthority } from "../../../helpers/test-pki.js";
import { testFleet } from "../../../helpers/test-server.js";
import type { DeviceKind } from "./device-port.js";
import { device, FleetUnderTest, line, tensorsIn } from "./fleet-under-test.js";

const dayMs = 86_400_000;

type Scenario = (fleet: FleetUnderTest, t: TestContext) => Promise<void>;

export function deviceContract(kind: DeviceKind): void {
  for (const [does, scenario] of Object.entries({
    ...delivery,
    ...reports,
    ...certificates,
    ...owned,
    ...orders,
    ...signed,
    ...restores,
    ...cuts,
    ...lies,
  }))
    it(does, async (t) => scenario(await FleetUnderTest.start(t, kind), t));
}

/** Blocks of the large model, and how many of them are let through before a cut. */
const blocksOfModel = 49;
const beforeCut = 30;
/** The fewest of those that do not come a second time: what came last may not be durable yet. */
const keptOfThem = 8;
const window = 8;

const delivery: Readonly<Record<string, Scenario>> = {
  "enrols with an invitation, and is refused its second use": async (fleet) => {
    const invitation = await fleet.invite();
    await fleet.enrol(invitation);
    await assert.rejects(fleet.enrol(invitation, `${fleet.home}-other`), { code: "CERTIFICATE_REFUSED" });
    await fleet.startDevice();
    await fleet.isOnline();
  },

  "gets the first model of its line, runs it bit for bit, and reports that": async (fleet) => {
    const file = await fleet.model(1);
    const { base } = await fleet.deviceWith("base", file);
    assert.deepEqual(await fleet.current(), await tensorsIn(file));
    assert.equal(await fleet.active(), base);
  },

  "installs a model of PyTorch in the names and axes of its file, too, and a model that it makes of it":
    async (fleet) => {
      const base = await fleet.importLaidOut("lstm-biases");
      await fleet.enrol(await fleet.invite("lstm-biases"));
      const running = await fleet.startDevice();
      await fleet.runs(base);
      assert.deepEqual(await fleet.current("original.safetensors"), await fleet.recovered(base, "original"));
      await fleet.describesWhatItRuns();
      const saved = await running.save(line, await fleet.trained());
      await fleet.stands(saved, "released");
      await fleet.runs(saved);
      assert.deepEqual(await fleet.current("original.safetensors"), await fleet.recovered(saved, "original"));
      await fleet.describesWhatItRuns();
      const { record } = await fleet.operations.model({ fleet: testFleet, model: saved });
      assert.deepEqual(
        record.objects.attachments?.map(({ name }) => name),
        ["stemma.layout"],
      );
    },

  "gets what it was assigned while it was away, and reports what it made then": async (fleet) => {
    const { device: first } = await fleet.deviceWith("base", await fleet.model(1));
    await first.stop();
    const update = await fleet.import("update", await fleet.model(2));
    await fleet.assign("update");
    const again = await fleet.startDevice();
    await fleet.runs(update);
    await fleet.isKnownToRun(update);
    await fleet.server.handle.close();
    const made = await fleet.model(3);
    const saved = await again.save(line, made);
    assert.equal(await again.standing(saved), "pending");
    await again.stop();
    await fleet.restartServer();
    await fleet.startDevice();
    await fleet.stands(saved, "released");
    assert.deepEqual(await fleet.recovered(saved), await tensorsIn(made));
  },

  "takes part in a rollout, and is sent back by its undo": async (fleet) => {
    const { base } = await fleet.deviceWith("base", await fleet.model(1));
    const update = await fleet.import("update", await fleet.model(2));
    const policy = { waves: ["rest"], soakMinutes: 0, unmeasured: "switch" as const };
    const rollout = {
      fleet: testFleet,
      name: "r",
      model: "update",
      line,
      select: "all",
      policy,
      start: true,
    };
    await fleet.operations.createRollout(rollout);
    await fleet.runs(update);
    await pollUntil("the rollout is done", async () => {
      const { phase } = await fleet.operations.rollout({ fleet: testFleet, rollout: "r" });
      return phase === "done";
    });
    await fleet.operations.undoRollout({ fleet: testFleet, rollout: "r" });
    await fleet.runs(base);
  },

  "keeps what it runs and the newest released models, and gets an older one again": async (fleet) => {
    const { device: running, base } = await fleet.deviceWith("base", await fleet.model(1));
    const updates: string[] = [];
    for (const seed of [2, 3, 4, 5]) {
      const update = await fleet.import(`update-${seed}`, await fleet.model(seed));
      await fleet.assign(`update-${seed}`);
      await fleet.runs(update);
      updates.push(update);
    }
    await pollUntil("the device has forgotten the first", async () => {
      return !(await running.versions(line)).includes(base);
    });
    const kept = await running.versions(line);
    assert.deepEqual(
      updates.slice(-3).filter((each) => !kept.includes(each)),
      [],
    );
    await fleet.assign("base");
    await fleet.runs(base);
    assert.deepEqual(await fleet.current(), await tensorsIn(await fleet.model(1)));
  },

  "gets nothing once it is revoked": async (fleet) => {
    const { base } = await fleet.deviceWith("base", await fleet.model(1));
    await fleet.operations.revoke({ fleet: testFleet, device, because: "stolen" });
    await fleet.reports(/revoked|NOT_ADMITTED|not admit/iu);
    await fleet.import("update", await fleet.model(2));
    await fleet.assign("update").catch(() => undefined);
    // Nothing can come to a device that is not connected, and it knows the reason.
    assert.equal((await fleet.operations.device({ fleet: testFleet, device })).online, false);
    assert.equal(await fleet.active(), base);
  },
};

const reports: Readonly<Record<string, Scenario>> = {
  "reports a model that the server recovers bit for bit, and runs it": async (fleet) => {
    const { device: running, base } = await fleet.deviceWith("base", await fleet.model(1));
    const file = await fleet.model(2);
    const saved = await running.save(line, file);
    await fleet.stands(saved, "released");
    await fleet.runs(saved);
    assert.deepEqual(await fleet.recovered(saved), await tensorsIn(file));
    const { record } = await fleet.operations.model({ fleet: testFleet, model: saved });
    assert.deepEqual([record.bases, record.device, record.line], [[base], device, line]);
  },

  "sends of a second model only what differs from the first": async (fleet, t) => {
    const { device: running } = await fleet.deviceWith("base", await fleet.model(1, { large: true }));
    const first = await running.save(line, await fleet.model(2, { large: true }));
    await fleet.runs(first);
    await fleet.stands(first, "released");
    const blocks = watchBlocks(t);
    const file = await fleet.model(2, { large: true, bias: 3 });
    const second = await running.save(line, file);
    await fleet.stands(second, "released");
    assert.deepEqual(await fleet.recovered(second), await tensorsIn(file));
    // The one tensor, and the objects that did not fit into messages.
    assert.ok(blocks.taken <= 2, `${blocks.taken} blocks were sent`);
  },

  "goes on when the server was restarted in the middle of a report": async (fleet, t) => {
    const { device: running } = await fleet.deviceWith("base", await fleet.model(1, { large: true }));
    const blocks = watchBlocks(t);
    blocks.limit = beforeCut;
    const file = await fleet.model(2, { large: true });
    const saved = await running.save(line, file);
    await pollUntil("some of it has come", () => blocks.taken >= beforeCut);
    blocks.limit = Infinity;
    await fleet.restartServer();
    await fleet.stands(saved, "released");
    assert.deepEqual(await fleet.recovered(saved), await tensorsIn(file));
  },
};

const signed: Readonly<Record<string, Scenario>> = {
  "installs only what its fleet's owner released, and what it made": async (fleet) => {
    const { server } = fleet;
    await publishFirst(server);
    const base = await fleet.import("base", await fleet.model(1));
    await fleet.enrol(await fleet.invite("base"));
    const running = await fleet.startDevice();
    await fleet.reports(/RELEASE_REQUIRED/u);
    assert.equal(await fleet.active(), undefined);
    await release(server, "base");
    await fleet.runs(base);
    await fleet.isKnownToRun(base);

    const saved = await running.save(line, await fleet.model(2));
    await fleet.runs(saved);
    await running.stop();
    const next = await fleet.import("next", await fleet.model(3));
    await fleet.assign("next");
    await fleet.startDevice();
    await fleet.reports(
      new RegExp(`${next.slice(0, 12)}.*RELEASE_REQUIRED|RELEASE_REQUIRED.*${next.slice(0, 12)}`, "u"),
    );
    assert.equal(await fleet.active(), saved);

    await release(server, "next");
    await fleet.runs(next);
    await fleet.assign("release:base");
    await fleet.runs(base);
    await revoke(server, "next", "poisoned");
    await fleet.assign("next");
    await fleet.reports(/RELEASE_REVOKED/u);
    assert.equal(await fleet.active(), base);
  },

  "goes by the time that its fleet's owner states, also by an earlier one": async (fleet) => {
    const { server } = fleet;
    await publishFirst(server);
    const base = await fleet.import("base", await fleet.model(1));
    const next = await fleet.import("next", await fleet.model(2));
    await release(server, "base");
    await release(server, "next");
    await fleet.enrol(await fleet.invite("base"));
    const running = await fleet.startDevice();
    await fleet.runs(base);
    await fleet.isKnownToRun(base);
    await stateTime(server, 1, Date.now() + 3650 * dayMs);
    await fleet.assign("next");
    await fleet.reports(/RELEASE_EXPIRED/u);
    assert.equal(await fleet.active(), base);
    await running.stop();
    await stateTime(server, 2, Date.now());
    await fleet.startDevice();
    await fleet.runs(next);
  },

  "waits for the owner's signature before it believes a restore": async (fleet) => {
    await publishFirst(fleet.server);
    const base = await fleet.import("base", await fleet.model(1));
    await release(fleet.server, "base");
    await fleet.enrol(await fleet.invite("base"));
    const running = await fleet.startDevice();
    await fleet.runs(base);
    await fleet.isKnownToRun(base);
    const restore = await fleet.backup();
    const file = await fleet.model(2);
    const saved = await running.save(line, file);
    await fleet.stands(saved, "released");
    await restore();
    const doubt = await pollUntil(
      "the server knows that the device doubts it",
      async () => (await fleet.operations.device({ fleet: testFleet, device })).doubt?.text,
    );
    assert.match(doubt, /waits for the signature/u);
    assert.equal(await running.standing(saved), "released");

    const toSign = parseRestoreFile((await fleet.operations.restoreToSign({ fleet: testFleet })).file);
    const text = restoreFileText(signRestore(toSign ?? assert.fail(), keyOfSeed(ownerSeed.repeat(64))));
    await fleet.operations.approveRestore({ fleet: testFleet, file: text });
    await fleet.isRecovered(saved, file);
  },
};

const restores: Readonly<Record<string, Scenario>> = {
  "reports again what a restored server has lost, and runs what it made meanwhile": async (fleet) => {
    const { device: running } = await fleet.deviceWith("base", await fleet.model(1));
    const restore = await fleet.backup();
    const [file, laterFile] = [await fleet.model(2), await fleet.model(3)];
    const saved = await running.save(line, file);
    await fleet.stands(saved, "released");
    await fleet.runs(saved);
    await fleet.server.handle.close();
    const later = await running.save(line, laterFile);
    await restore();
    await fleet.isRecovered(saved, file);
    await fleet.isRecovered(later, laterFile);
    await fleet.isKnownToRun(later);
  },
};

const certificates = Object.fromEntries(
  [
    ["renews a certificate that ends soon", dayMs / 24, true],
    ["renews one that has ended", -1000, true],
    ["renews one that has ended over MQTT, where it knows no address of HTTPS", -1000, false],
  ].map(([does, leftMs, hasHttps]): [string, Scenario] => [
    String(does),
    async (fleet) => {
      await fleet.enrol(await fleet.invite());
      await fleet.withCertificateUntil(Date.now() + Number(leftMs), { hasHttps: Boolean(hasHttps) });
      await fleet.startDevice();
      await fleet.isOnline();
      await pollUntil("the device renewed it", async () => (await fleet.certificates()).length === 2);
    },
  ]),
);

const owned: Readonly<Record<string, Scenario>> = {
  "goes by a certificate of its owner's authority, and takes the next one from the same file": async (
    fleet,
  ) => {
    const base = await fleet.import("base", await fleet.model(1));
    const certify = await fleet.enrolOwned(await makeAuthority("root"), "base");
    const enrolment = await readFile(join(fleet.home, "enrolment.json"), "utf8");
    assert.doesNotMatch(enrolment, /PRIVATE KEY/u);
    const running = await fleet.startDevice();
    await fleet.runs(base);
    await fleet.isKnownToRun(base);
    await running.stop();
    const serial = await certify();
    await fleet.startDevice();
    await fleet.isOnline();
    await pollUntil("the server knows the next certificate", async () =>
      (await fleet.certificates()).some((each) => each.serial === serial),
    );
  },
};

const orders: Readonly<Record<string, Scenario>> = {
  "renews its certificate when its owner asks, and connects again": async (fleet) => {
    await fleet.enrol(await fleet.invite());
    const running = await fleet.startDevice();
    const renewed = (): Promise<boolean> =>
      fleet.operations.renewDevice({ fleet: testFleet, device }).then(
        () => true,
        (error: unknown) => {
          if (isStemmaError(error, "SERVER_UNREACHABLE")) return false;
          throw error;
        },
      );
    await pollUntil("the device is there", renewed);
    await running.stop();
    assert.equal((await fleet.certificates()).length, 2);
    await fleet.startDevice();
    await fleet.isOnline();
  },
};

const cuts: Readonly<Record<string, Scenario>> = {
  "goes on with a fetch where it was killed": async (fleet, t) => {
    const blocks = watchBlocks(t);
    blocks.limit = beforeCut;
    const file = await fleet.model(1, { large: true });
    const base = await fleet.import("base", file);
    await fleet.enrol(await fleet.invite("base"));
    const running = await fleet.startDevice();
    // A window further than what came, all that came is written.
    await pollUntil(
      "some of it has come",
      () => blocks.isAskedAgain || blocks.asked.size >= beforeCut + window,
    );
    await running.kill();
    assert.equal(await fleet.active(), undefined);
    blocks.limit = Infinity;
    blocks.sent = 0;
    await fleet.startDevice();
    await fleet.runs(base);
    assert.deepEqual(await fleet.current(), await tensorsIn(file));
    t.diagnostic(`${blocks.sent} blocks of ${blocksOfModel} were sent after the kill`);
    assert.ok(blocks.sent <= blocksOfModel - keptOfThem, `${blocks.sent} blocks were sent again`);
  },

  "goes on with a report where it was killed": async (fleet, t) => {
    const { device: running } = await fleet.deviceWith("base", await fleet.model(1, { large: true }));
    const blocks = watchBlocks(t);
    blocks.limit = beforeCut;
    const file = await fleet.model(2, { large: true });
    const saved = await running.save(line, file);
    await pollUntil("some of it has come", () => blocks.taken >= beforeCut);
    await running.kill();
    blocks.limit = Infinity;
    blocks.taken = 0;
    await fleet.startDevice();
    await fleet.stands(saved, "released");
    assert.deepEqual(await fleet.recovered(saved), await tensorsIn(file));
    t.diagnostic(`${blocks.taken} blocks of ${blocksOfModel} came after the kill`);
    assert.ok(blocks.taken <= blocksOfModel - keptOfThem, `${blocks.taken} blocks came again`);
  },
};

/** A server that sends wrong bytes is not believed; once it sends the right ones, the model is taken. */
const refusesWrong =
  (wrong: "changesBlocks" | "changesObjects", code: RegExp): Scenario =>
  async (fleet, t) => {
    const blocks = watchBlocks(t);
    blocks[wrong] = true;
    const base = await fleet.import("base", await fleet.model(1));
    await fleet.enrol(await fleet.invite("base"));
    const running = await fleet.startDevice();
    await fleet.reports(code);
    assert.equal(await fleet.active(), undefined);
    await running.stop();
    blocks[wrong] = false;
    await fleet.startDevice();
    await fleet.runs(base);
  };

const lies: Readonly<Record<string, Scenario>> = {
  "refuses blocks that are not those of the manifest, and takes the model once they are": refusesWrong(
    "changesBlocks",
    /BLOCK_HASH_MISMATCH/u,
  ),
  "refuses objects that are not those of their ids": refusesWrong("changesObjects", /OBJECT_HASH_MISMATCH/u),
};

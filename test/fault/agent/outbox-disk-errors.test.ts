/**
 * The outbox on a disk where any single operation fails or finds the disk full: the error has a code, and
 * nothing acknowledged is lost.
 */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { Outbox } from "../../../agent/outbox/outbox.js";
import { silentLog } from "../../../shared/adapters/node-ports.js";
import { isStemmaError } from "../../../shared/errors.js";
import { failNth, faultyFiles, fullAfter, type Fault } from "../../helpers/files/faulty-files.js";
import { memoryFiles } from "../../helpers/files/memory-files.js";
import type { Files } from "../../../shared/ports.js";
import { recoverModel } from "../../../shared/recover/recover-model.js";
import type { Hash } from "../../../shared/tensor/tensor.js";
import { tinySource } from "../../helpers/agent-fixtures.js";
import { manualClock, seededRandom } from "../../helpers/manual-clock.js";
import { drawn } from "../../helpers/test-depth.js";

const clock = manualClock();
const open = (files: Files): Promise<Outbox> =>
  Outbox.open({ files, folder: "/outbox", clock, random: seededRandom("errors"), log: silentLog() });
const save = async (outbox: Outbox, number: number): Promise<Hash> =>
  (
    await outbox.saveTrained(tinySource(String(number)), {
      name: "m",
      fleet: "f",
      device: "d",
      line: "cam",
      base: undefined,
      metric: null,
      samples: null,
      environment: { backend: "none" },
    })
  ).versionId;

/**
 * Saves, releases and forgets as far as the disk permits; returns what was acknowledged and how much failed.
 */
async function workOn(files: Files): Promise<{ readonly saved: readonly Hash[]; readonly failures: number }> {
  const saved: Hash[] = [];
  let failures = 0;
  const attempt = async (action: () => Promise<unknown>): Promise<void> => {
    try {
      await action();
    } catch (error) {
      failures++;
      assert.ok(isStemmaError(error), `an error without a code: ${String(error)}`);
    }
  };
  await attempt(async () => {
    const outbox = await open(files);
    for (let number = 1; number <= 4; number++)
      await attempt(async () => {
        saved.push(await save(outbox, number));
      });
    for (const [at, versionId] of saved.entries())
      if (at < 2)
        await attempt(() =>
          outbox.append({
            type: "receipt",
            atMs: 0,
            kind: "released",
            versionId,
            position: at,
            backedUpTo: 0,
            name: "m",
            version: at + 1,
          }),
        );
    await attempt(() => outbox.forget(1, "stored"));
    await attempt(() => outbox.close());
  });
  return { saved, failures };
}

async function check(files: Files, saved: readonly Hash[], what: string): Promise<void> {
  const outbox = await open(files);
  for (const versionId of saved) {
    const entry = outbox.entry(versionId);
    if (outbox.state.receipts.has(versionId)) continue;
    assert.ok(entry !== undefined, `${what}: ${versionId} is gone`);
    assert.equal((await recoverModel(outbox.objects, versionId, clock)).versionId, versionId);
  }
  await save(outbox, 9);
  await outbox.close();
}

describe("the outbox on a faulty disk", () => {
  for (const fault of [
    { code: "EIO", writtenShare: 0.5 },
    { code: "ENOSPC", writtenShare: 0.3 },
  ] satisfies Fault[]) {
    it(`keeps what it acknowledged when any single operation fails with ${fault.code}`, async () => {
      let failing = 0;
      const operations = drawn(
        Array.from({ length: 120 }, (_, nth) => nth),
        30,
      );
      for (const nth of operations) {
        const files = memoryFiles();
        const { saved, failures } = await workOn(faultyFiles(files, failNth(nth, fault)));
        if (failures > 0) failing++;
        await check(files, saved, `operation ${nth}`);
      }
      assert.ok(failing > operations.length / 6, `only ${failing} operations failed anything`);
    });
  }
  it("reports that it must be reopened when an fsync fails", async () => {
    const reported: string[] = [];
    let failing = false;
    const files = faultyFiles(memoryFiles(), ({ kind }) =>
      failing && kind === "sync" ? { code: "EIO" } : undefined,
    );
    const outbox = await Outbox.open({
      files,
      folder: "/outbox",
      clock,
      random: seededRandom("errors"),
      log: silentLog(),
      onFatal: ({ code }) => {
        reported.push(code);
      },
    });
    await save(outbox, 1);
    failing = true;
    await assert.rejects(save(outbox, 2));
    await assert.rejects(outbox.append({ type: "seen", atMs: 0, length: 1, chain: "0".repeat(64) as Hash }));
    failing = false;
    await assert.rejects(outbox.append({ type: "seen", atMs: 0, length: 1, chain: "0".repeat(64) as Hash }));
    assert.deepEqual(reported, ["STORE_FAILED", "JOURNAL_STOPPED"]);
  });
  it("continues when a full disk has free space again", async () => {
    const files = memoryFiles();
    const { plan, free } = fullAfter(3000);
    const outbox = await open(faultyFiles(files, plan));
    const saved: Hash[] = [];
    let refused = 0;
    for (let number = 1; number <= 8; number++)
      await save(outbox, number).then(
        (versionId) => saved.push(versionId),
        (error: unknown) => {
          refused++;
          assert.ok(isStemmaError(error, "DISK_FULL"), String(error));
        },
      );
    assert.ok(refused > 0 && saved.length > 0);
    free(1_000_000);
    saved.push(await save(outbox, 10));
    await outbox.close();
    await check(files, saved, "after the disk was full");
  });
});

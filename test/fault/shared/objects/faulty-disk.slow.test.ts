/**
 * A failing disk: each operation fails once or permanently, with an input/output error or because the disk is
 * full. Everything acknowledged stays; a failed save throws an error with a code; work continues when the
 * disk works again, after reopening if an fsync failed.
 */
import assert from "node:assert/strict";
import { it } from "node:test";
import { isStemmaError } from "../../../../shared/errors.js";
import { crashState, crashStyles } from "../../../helpers/files/crash-states.js";
import {
  changingKinds,
  failNth,
  faultyFiles,
  fullAfter,
  type Fault,
  type FaultPlan,
  type FileOperationKind,
} from "../../../helpers/files/faulty-files.js";
import { memoryFiles } from "../../../helpers/files/memory-files.js";
import { recordingFiles } from "../../../helpers/files/recording-files.js";
import type { Files } from "../../../../shared/ports.js";
import { drawn } from "../../../helpers/test-depth.js";
import { checkSmall, openSmall, type Ack } from "./small-repository.js";

/** Works on a disk that may fail at any point. Returns the codes of what failed. */
async function workThrough(files: Files, mark: (ack: Ack) => void): Promise<string[]> {
  const failures: string[] = [];
  let home: Awaited<ReturnType<typeof openSmall>> | undefined;
  const attempt = async (run: () => Promise<void>): Promise<void> => {
    try {
      await run();
    } catch (error) {
      assert.ok(isStemmaError(error), `not a typed error: ${String(error)}`);
      failures.push(error.code);
    }
  };
  let opened = 0;
  const save = (number: number) =>
    attempt(async () => {
      if (home !== undefined) mark({ what: "saved", save: number, position: await home.save(number) });
    });
  for (let round = 0; round < 3; round++) {
    if (home === undefined || failures.includes("JOURNAL_STOPPED") || failures.includes("STORE_FAILED")) {
      await attempt(async () => {
        await home?.close();
      });
      home = undefined;
      await attempt(async () => {
        home = await openSmall(files, `opened ${opened++}`);
      });
    }
    await Promise.all([save(round * 4), save(round * 4 + 1)]);
    await save(round * 4 + 2);
    await attempt(async () => {
      if (home?.saves.has(round * 4) !== true) return;
      mark({ what: "retiring", save: round * 4 });
      await home.retire(round * 4);
      mark({ what: "retired", save: round * 4 });
    });
    await attempt(async () => {
      await home?.collect();
    });
  }
  await attempt(async () => {
    await home?.close();
  });
  return failures;
}

/** Works on a disk with this fault, ends the process, and then checks everything on a working disk. */
async function runWith(plan: FaultPlan): Promise<{ readonly failures: readonly string[] }> {
  let operations = 0;
  const memory = memoryFiles();
  const disk = recordingFiles(memory);
  const failures = await workThrough(
    faultyFiles(disk, (operation) => {
      if (changingKinds.includes(operation.kind)) operations++;
      return plan(operation);
    }),
    (ack) => disk.mark(ack),
  );
  for (const style of [
    "all-kept",
    "all-dropped",
    crashStyles[operations % crashStyles.length] ?? "zeros",
  ] as const) {
    const state = crashState(disk.recording, disk.recording.events, style, operations);
    try {
      await checkSmall(state.files, state.marks as Ack[]);
    } catch (error) {
      throw new Error(
        `${state.description}: ${error instanceof Error ? (error.stack ?? "") : String(error)}`,
        { cause: error },
      );
    }
  }
  return { failures };
}

async function everyOperation(
  fault: Fault,
  kinds: readonly FileOperationKind[],
  isPermanent: boolean,
): Promise<Set<string>> {
  let operations = 0;
  await runWith(({ kind }) => {
    if (kinds.includes(kind)) operations++;
    return undefined;
  });
  assert.ok(operations > 50, `${operations}`);
  const codes = new Set<string>();
  const numbers = Array.from({ length: operations }, (_, n) => n);
  for (const n of drawn(numbers, 24)) {
    try {
      for (const code of (await runWith(failNth(n, fault, { kinds, isPermanent }))).failures) codes.add(code);
    } catch (error) {
      throw new Error(
        `${fault.code} at operation ${n}${isPermanent ? " and after" : ""}: ${error instanceof Error ? (error.stack ?? "") : String(error)}`,
        { cause: error },
      );
    }
  }
  return codes;
}

it("an input/output error at any operation loses nothing acknowledged", async () => {
  const codes = await everyOperation({ code: "EIO", writtenShare: 0.5 }, changingKinds, false);
  assert.ok(
    codes.has("FILE_FAILED") && codes.has("JOURNAL_STOPPED") && codes.has("STORE_FAILED"),
    [...codes].join(" "),
  );
});
it("a disk that fails permanently at any operation loses nothing acknowledged", async () => {
  await everyOperation({ code: "EIO", writtenShare: 0.3 }, changingKinds, true);
});
it("after a failed fsync nothing is acknowledged until the store is reopened", async () => {
  const codes = await everyOperation({ code: "EIO" }, ["sync", "syncFolder"], false);
  assert.ok(codes.has("JOURNAL_STOPPED") && codes.has("STORE_FAILED"), [...codes].join(" "));
});
it("a full disk loses nothing acknowledged, and work continues when there is space again", async () => {
  const codes = await everyOperation(
    { code: "ENOSPC", writtenShare: 0.7 },
    ["write", "open", "makeFolder"],
    false,
  );
  assert.deepEqual([...codes], ["DISK_FULL"]);
});
it("a disk that stays full fails every save and keeps all earlier ones", async () => {
  for (const bytes of [0, 100, 3000, 5000, 20_000, 100_000, 120_000]) {
    const { plan } = fullAfter(bytes);
    const { failures } = await runWith(plan);
    assert.ok(
      failures.length > 0 && failures.every((code) => code === "DISK_FULL"),
      `${bytes}: ${failures.join(" ")}`,
    );
  }
});

/** A disk that fails under an open journal: every append gets an answer, and none is acknowledged that is not there. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { StemmaError, type ErrorCode } from "../../../../shared/errors.js";
import { openJournal } from "../../../../shared/journal/open-journal.js";
import type { Files, OpenFile } from "../../../../shared/ports.js";
import { memoryFiles } from "../../../helpers/files/memory-files.js";
import { withOverrides } from "../../../helpers/with-overrides.js";
import { code, numbersIn, type TestFact } from "../../../contract/shared/journal/journal-contract.js";

const folder = "/journal";
const diskFull: ErrorCode = "DISK_FULL";

/** Files of which the segments' `write`, `sync` and `truncate` fail while they are named in `failing`. */
function failingFiles() {
  const files = memoryFiles();
  const failing = new Map<"write" | "sync" | "truncate", ErrorCode>();
  const failIn = (name: "write" | "sync" | "truncate"): void => {
    const error = failing.get(name);
    if (error !== undefined) throw new StemmaError(error, `The disk failed in ${name}.`);
  };
  const wrapped = withOverrides<Files>(files, {
    open: async (path, mode) => {
      const file = await files.open(path, mode);
      if (!path.endsWith(".log")) return file;
      return withOverrides<OpenFile>(file, {
        write: async (bytes, position) => {
          // A full disk takes a part.
          await file.write(failing.has("write") ? bytes.subarray(0, bytes.length - 3) : bytes, position);
          failIn("write");
        },
        sync: async () => {
          failIn("sync");
          await file.sync();
        },
        truncate: async (size) => {
          failIn("truncate");
          await file.truncate(size);
        },
      });
    },
  });
  return { files, wrapped, failing };
}

describe("a journal whose disk fails", () => {
  it("refuses what finds the disk full, takes it back, and goes on when there is space", async () => {
    const { files, wrapped, failing } = failingFiles();
    const journal = await openJournal<TestFact>(wrapped, folder);
    await journal.append([{ n: 0 }]);
    const bytes = await journal.byteLength();
    failing.set("write", diskFull);
    await Promise.all(
      [{ n: 77, text: "longer than what comes later" }, { n: 78 }].map((fact) =>
        assert.rejects(() => journal.append([fact]), code(diskFull)),
      ),
    );
    assert.equal(await journal.byteLength(), bytes, "nothing of it is left in the file");
    failing.clear();
    assert.deepEqual(await journal.append([{ n: 1 }]), [1]);
    await journal.close();
    const again = await openJournal<TestFact>(files, folder);
    assert.deepEqual(await numbersIn(again), [0, 1]);
    assert.equal(again.opening.tornBytes, 0);
    await again.close();
  });

  it("stops where it cannot know what is on the disk, and says so to whoever waits and comes later", async () => {
    for (const failures of [
      [["write", "FILE_FAILED"]],
      [["sync", "FILE_FAILED"]],
      [["sync", diskFull]],
      [
        ["write", diskFull],
        ["truncate", "FILE_FAILED"],
      ],
    ] as const) {
      const { files, wrapped, failing } = failingFiles();
      const journal = await openJournal<TestFact>(wrapped, folder);
      await journal.append([{ n: 0 }]);
      for (const [name, error] of failures) failing.set(name, error);
      const waiting = [1, 2].map((n) =>
        assert.rejects(() => journal.append([{ n }]), code("JOURNAL_STOPPED")),
      );
      await Promise.all(waiting);
      failing.clear();
      await assert.rejects(() => journal.append([{ n: 3 }]), code("JOURNAL_STOPPED"));
      assert.equal(journal.head().length, 1);
      await journal.close();
      const again = await openJournal<TestFact>(files, folder);
      assert.equal((await numbersIn(again))[0], 0);
      assert.ok(!(await numbersIn(again)).includes(3));
      await again.close();
    }
  });
});

/** A file that was closed is not read any more, whatever file has its descriptor since. */
import assert from "node:assert/strict";
import { closeSync, mkdtempSync, openSync, readSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { it } from "node:test";
import { openNodeFileNow } from "../../../../shared/files/open-now.js";

it("refuses to read a closed file, and closes nothing twice", (t) => {
  const folder = mkdtempSync(join(tmpdir(), "stemma-open-now-"));
  t.after(() => {
    rmSync(folder, { recursive: true });
  });
  writeFileSync(join(folder, "one"), "one");
  writeFileSync(join(folder, "two"), "two");
  const file = openNodeFileNow(join(folder, "one"));
  assert.equal(file.size(), 3);
  file.close();
  // Takes the descriptor that has just become free.
  const other = openSync(join(folder, "two"), "r");
  const bytes = new Uint8Array(3);
  assert.throws(() => file.read(bytes, 0), { code: "FILE_FAILED" });
  assert.throws(() => file.size(), { code: "FILE_FAILED" });
  file.close();
  assert.equal(readSync(other, bytes, 0, 3, 0), 3);
  closeSync(other);
});

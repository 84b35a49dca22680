/** Crashes while tables are committed and merged: what was acknowledged is there, whole, and nothing is half there. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { isRemoved, removed } from "../../../../shared/tables/row.js";
import { TableSet } from "../../../../shared/tables/table-set.js";
import type { FilesToReadNow } from "../../../../shared/ports.js";
import { checkCrashStates } from "../../../helpers/crash-states.js";

const folder = "/index";
const commits = 9;
/** The commit of whoever opens what a crash left. */
const repaired = 100;

/** Each commit removes other rows than the one before it. */
function rowsOf(commit: number) {
  return Array.from({ length: 40 }, (_, n) => ({
    key: Buffer.from(`row ${String(n).padStart(3, "0")}`),
    value: (commit + n) % 5 === 0 ? removed : Buffer.from(`${commit} `.repeat(n + 1)),
  }));
}

function requireRowsOf(commit: number, tables: TableSet): void {
  for (const row of rowsOf(commit))
    assert.deepEqual(tables.get(row.key), isRemoved(row) ? undefined : row.value);
}

test("tables after a crash hold one commit, not older than the one that was acknowledged last", async () => {
  await checkCrashStates<number>({
    name: "tables",
    async run(recorded, mark) {
      const files = recorded as FilesToReadNow;
      const tables = TableSet.empty(files, folder);
      for (let commit = 1; commit <= commits; commit++) {
        await tables.commit(rowsOf(commit), Buffer.from(String(commit)));
        mark(commit);
      }
      await tables.close();
    },
    async check(state, marks) {
      const files = state as FilesToReadNow;
      const acknowledged = marks.at(-1) ?? 0;
      const tables = (await TableSet.open(files, folder)) ?? TableSet.empty(files, folder);
      const held = Number(tables.head.toString());
      const isRepaired = held === repaired;
      assert.ok(
        isRepaired || (held >= acknowledged && held <= acknowledged + 1),
        `${held} of ${acknowledged}`,
      );
      if (held > 0) {
        await tables.removeRests();
        requireRowsOf(held, tables);
      }
      await tables.commit(rowsOf(repaired), Buffer.from(String(repaired)));
      await tables.close();
      const again = (await TableSet.open(files, folder)) as TableSet;
      requireRowsOf(repaired, again);
      await again.close();
    },
  });
});

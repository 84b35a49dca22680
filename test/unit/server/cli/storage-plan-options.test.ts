// `--budget` of the storage commands: its text is read by the command, its bounds are those of the operation.
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { Command } from "commander";
import { operationTable } from "../../../../server/interface/api/operation-table.js";
import { addStoragePlanCommands } from "../../../../server/cli/commands/storage/plan.js";

/** The budget that `storage plan` or `storage apply` reads from its arguments. */
function budgetOf(name: string, args: readonly string[]): unknown {
  const storage = new Command("storage");
  addStoragePlanCommands(storage);
  const command = storage.commands.find((each) => each.name() === name);
  assert.ok(command);
  command.parseOptions([...args]);
  return command.opts()["budget"];
}

describe("options of storage plan and storage apply", () => {
  for (const name of ["plan", "apply"]) {
    it(`${name} reads a budget as a ratio or none`, () => {
      assert.equal(budgetOf(name, []), "auto");
      for (const text of ["2.5x", "3", "1x", "1000000", "none", "auto"])
        assert.equal(budgetOf(name, ["--budget", text]), text);
    });

    it(`${name} refuses what the operation refuses`, () => {
      const { ratio } = operationTable.planStorage.body.shape;
      for (const text of ["0.9x", "0", "1000001", "1e9x", "-1x", "NaN", "", "x"])
        assert.throws(() => budgetOf(name, ["--budget", text]), { code: "USAGE" }, text);
      for (const value of [0.9, 0, 1_000_001]) assert.equal(ratio.safeParse(value).success, false);
    });
  }
});

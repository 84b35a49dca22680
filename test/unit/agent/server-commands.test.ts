import assert from "node:assert/strict";
import { test } from "node:test";
import { runServerCommand, type CommandTarget } from "../../../agent/server-commands.js";
import { runCommand } from "../../../agent/session/run-command.js";

const untouched: CommandTarget = {
  status: () => assert.fail("no status was requested"),
  train: () => assert.fail("no training was requested"),
  activate: () => assert.fail("no activation was requested"),
};

for (const [what, json] of [
  ["malformed JSON", '{"line": '],
  ["a JSON array", "[]"],
  ["a JSON number", "7"],
] as const)
  test(`a command whose body is ${what} is refused as a wrong usage`, async () => {
    const result = await runCommand((command) => runServerCommand(command, untouched), {
      type: "command",
      name: "train",
      json,
    });
    assert.equal(result.code, "USAGE");
  });

/** Each command loads by itself with the same options as in the whole program, and misspelt ones load all. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { Command } from "commander";
import { addNamedCommands } from "../../../../server/cli/command-modules.js";

async function programOf(...argv: readonly string[]): Promise<Command> {
  const program = new Command("stemma");
  await addNamedCommands(program, argv);
  return program;
}

/** "model list" → its options, for every command that has no commands below it. */
function optionsByPath(command: Command, path = ""): Map<string, readonly string[]> {
  const found = new Map<string, readonly string[]>();
  for (const child of command.commands) {
    const childPath = `${path} ${child.name()}`.trim();
    if (child.commands.length === 0)
      found.set(
        childPath,
        child.options.map(({ flags }) => flags),
      );
    for (const [below, options] of optionsByPath(child, childPath)) found.set(below, options);
  }
  return found;
}

const all = optionsByPath(await programOf());

test("the whole program has the commands of every group", () => {
  for (const path of [
    "demo",
    "server",
    "agent",
    "device enroll",
    "model list",
    "model export",
    "storage retention set",
  ])
    assert.ok(all.has(path), path);
});

for (const [path, options] of all)
  test(`stemma ${path} loads by itself`, async () => {
    const alone = optionsByPath(await programOf(...path.split(" ")));
    assert.deepEqual(alone.get(path), options);
    assert.ok(alone.size < all.size, "only its own module is loaded");
    const explained = optionsByPath(await programOf("help", ...path.split(" ")));
    assert.deepEqual(explained.get(path), options);
  });

test("what names no command loads them all, so that the help can suggest one", async () => {
  assert.deepEqual(optionsByPath(await programOf("modle", "list")), all);
  assert.deepEqual(optionsByPath(await programOf("--help")), all);
  const models = [...all.keys()].filter((path) => path.startsWith("model "));
  assert.deepEqual([...optionsByPath(await programOf("model", "lst")).keys()], models);
});

test("the version needs no command", async () => {
  assert.equal((await programOf("--version")).commands.length, 0);
});

/** Each command loads by itself with the same options as with its neighbours; the help of the program loads none. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { Command } from "commander";
import { buildProgram } from "../../../../server/cli/build-program.js";
import { addNamedCommands, isGroup } from "../../../../server/cli/command-modules.js";

async function programOf(...argv: readonly string[]): Promise<Command> {
  const program = new Command("stemma");
  await addNamedCommands(program, argv, buildProgram);
  return program;
}

function isLoaded(command: Command): boolean {
  return command.options.length > 0 || command.commands.length > 0;
}

/** "model list" → its options, for every command that has no commands below it. */
function optionsByPath(
  command: Command | undefined,
  path = command?.name() ?? "",
): Map<string, readonly string[]> {
  const found = new Map<string, readonly string[]>();
  if (command === undefined) return found;
  if (command.commands.length === 0)
    found.set(
      path,
      command.options.map(({ flags }) => flags),
    );
  for (const child of command.commands)
    for (const [below, options] of optionsByPath(child, `${path} ${child.name()}`)) found.set(below, options);
  return found;
}

/** The command of this name below the program, loaded by the arguments, and the names of the others. */
function partsOf(program: Command, name: string): { readonly command?: Command; readonly others: Command[] } {
  const command = program.commands.find((each) => each.name() === name);
  return {
    ...(command === undefined ? {} : { command }),
    others: program.commands.filter((each) => each !== command),
  };
}

const names = (await programOf()).commands.map((command) => command.name());
const all = new Map<string, readonly string[]>();
for (const name of names)
  for (const [path, options] of optionsByPath(partsOf(await programOf(name), name).command))
    all.set(path, options);

test("the whole program has the commands of every group", () => {
  for (const path of [
    "demo",
    "server",
    "agent",
    "device enroll",
    "model list",
    "model export",
    "storage retention set",
    "storage plan",
  ])
    assert.ok(all.has(path), path);
});

for (const [path, options] of all)
  test(`stemma ${path} loads by itself`, async () => {
    const words = path.split(" ");
    for (const argv of [words, ["help", ...words]]) {
      const { command, others } = partsOf(await programOf(...argv), words[0] ?? "");
      assert.deepEqual(optionsByPath(command).get(path), options);
      assert.ok(!others.some(isLoaded), "no other command is loaded");
    }
  });

test("one of several modules below a command loads without the others", async () => {
  for (const path of ["model list", "model eval", "storage stats", "storage plan"]) {
    const words = path.split(" ");
    const { command } = partsOf(await programOf(...words), words[0] ?? "");
    const below = [...all.keys()].filter((each) => each.startsWith(`${words[0]} `));
    assert.ok(optionsByPath(command).size < below.length, path);
  }
});

test("what names no command loads none, and has the names of all for the help and for suggestions", async () => {
  for (const argv of [[], ["--help"], ["modle", "list"]]) {
    const { commands } = await programOf(...argv);
    assert.deepEqual(
      commands.map((command) => command.name()),
      names,
    );
    assert.ok(!commands.some(isLoaded));
  }
  const models = [...all.keys()].filter((path) => path.startsWith("model "));
  const { command } = partsOf(await programOf("model", "lst"), "model");
  assert.deepEqual([...optionsByPath(command).keys()], models);
});

test("the help shows a command that is not loaded as one that is", async () => {
  const unloaded = await programOf();
  for (const name of names) {
    const loaded = partsOf(await programOf(name), name).command;
    const shown = partsOf(unloaded, name).command;
    assert.deepEqual(
      shown?.registeredArguments.map((each) => each.name()),
      loaded?.registeredArguments.map((each) => each.name()),
    );
    assert.equal(shown?.description(), loaded?.description());
    assert.equal(loaded !== undefined && isGroup(loaded), (loaded?.commands.length ?? 0) > 0);
  }
});

test("the version needs no command", async () => {
  assert.equal((await programOf("--version")).commands.length, 0);
});

/** Declared commands take what the schemas of their operations say, call them, and print their answers. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { Command } from "commander";
import { isStemmaError } from "../../../../shared/errors.js";
import { operationTable } from "../../../../server/interface/api/operation-table.js";
import { withoutOptional } from "../../../../server/interface/api/fields.js";
import { buildProgram } from "../../../../server/cli/build-program.js";
import { addNamedCommands } from "../../../../server/cli/command-modules.js";
import { addPlainCommands, plain, repeated, type Listed } from "../../../../server/cli/plain-command.js";

/** The command of this list, on a program of its own. */
async function programOf(...commands: readonly Listed[]): Promise<Command> {
  const program = new Command("stemma");
  await addPlainCommands(program, commands);
  program.commands.forEach((command) =>
    command.exitOverride().configureOutput({ writeErr: () => undefined }),
  );
  return program;
}

/** Options and what they take, as the help shows them. */
function optionsOf(program: Command, name: string): readonly string[] {
  const command = program.commands.find((each) => each.name() === name);
  return (command?.options ?? []).map(({ flags, mandatory }) => (mandatory ? `${flags}, needed` : flags));
}

/** What the command line gave a command. */
async function chosen(line: string, commands: (see: (choices: unknown) => void) => Listed): Promise<unknown> {
  let seen: unknown;
  const program = await programOf(
    commands((choices) => {
      seen = choices;
    }),
  );
  program.commands.forEach((command) => command.option("--home <dir>"));
  await program.parseAsync([...line.split(" "), "--home", "/nowhere"], { from: "user" });
  return seen;
}

const seeing = (see: (choices: unknown) => void): Listed =>
  plain("listModels", {
    name: "see",
    takes: { words: "<words...> any" },
    options: {
      name: "<name>",
      limit: "<n>",
      all: "also retired ones",
      where: repeated("<condition> (repeatable)"),
      other: "<text> of no member",
    },
    run: (choices) => {
      see(choices);
      return Promise.resolve();
    },
  });

describe("a declared command", () => {
  it("takes what the schema says: kinds, and what must be there", async () => {
    const program = await programOf(
      plain("moveWebhook", {
        name: "move",
        takes: { name: "" },
        options: { from: "<position> of the next" },
      }),
      plain("removeDevice", { name: "rm", takes: { device: "" }, options: { because: "", dryRun: "" } }),
      plain("addAuthority", { name: "add", options: { onEndedList: "<policy> then" } }),
      plain("acceptDevices", { name: "accept", takes: { devices: "" } }),
    );
    assert.deepEqual(optionsOf(program, "move"), ["--from <position>, needed"]);
    assert.deepEqual(optionsOf(program, "rm"), ["--because <text>", "--dry-run"]);
    const [accept] = program.commands.filter((command) => command.name() === "accept");
    assert.deepEqual(
      accept?.registeredArguments.map(({ required, variadic }) => [required, variadic]),
      [[false, true]],
    );
    const [add] = program.commands.filter((command) => command.name() === "add");
    assert.deepEqual(add?.options[0]?.argChoices, ["serve", "refuse"]);
  });

  it("is described by the schema where it says nothing itself", async () => {
    const program = await programOf(plain("check", { name: "check", options: { sample: "<n>" } }));
    assert.equal(
      program.commands[0]?.options[0]?.description,
      operationTable.check.body.shape.sample.description,
    );
  });

  it("gives its functions values, not texts, and no member that is absent", async () => {
    assert.deepEqual(await chosen("see a b --name soh --limit 3 --where x=1 --where y=2", seeing), {
      words: ["a", "b"],
      name: "soh",
      limit: 3,
      all: false,
      where: ["x=1", "y=2"],
    });
    assert.deepEqual(await chosen("see a --all --other o", seeing), {
      words: ["a"],
      all: true,
      where: [],
      other: "o",
    });
  });

  it("refuses what the schema refuses, as a mistake of the command line", async () => {
    for (const [line, message] of [
      ["see a --limit x", /^--limit x is not a whole number\. Give one, such as --limit 100\.$/],
      ["see a --limit 0", /^--limit 0 is not valid: /],
      ["see a --name ", /^--name {2}is not valid: /],
    ] as const)
      await assert.rejects(chosen(line, seeing), (error: unknown) => {
        assert.ok(isStemmaError(error, "USAGE"), String(error));
        assert.match(error.message, message);
        return true;
      });
  });
});

/** Every command that is declared with an operation, by its words. */
async function* declared(): AsyncGenerator<readonly [string, Command]> {
  const names = new Command();
  await addNamedCommands(names, [], buildProgram);
  for (const { name } of names.commands.map((command) => ({ name: command.name() }))) {
    const program = new Command();
    await addNamedCommands(program, [name], buildProgram);
    const below = [program.commands.find((command) => command.name() === name)];
    for (let command = below.shift(); command !== undefined; command = below.shift()) {
      below.push(...command.commands);
      yield [name, command];
    }
  }
}

it("flags of all commands are flags, and no two options of one have the same name", async () => {
  let commands = 0;
  for await (const [name, command] of declared()) {
    commands++;
    const longs = command.options.map(({ long }) => long);
    assert.equal(new Set(longs).size, longs.length, `${name} ${command.name()}`);
    for (const { long, required, defaultValue } of command.options)
      assert.ok(required || typeof defaultValue !== "string", `${name} ${command.name()} ${long}`);
  }
  assert.ok(commands > 120);
});

it("an operation that must have a member says so with a schema that is not optional", () => {
  const { from } = operationTable.moveWebhook.body.shape;
  assert.equal(withoutOptional(from), from);
});

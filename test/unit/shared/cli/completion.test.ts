/** What a shell is told can come next. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { Argument, Command, Option } from "commander";
import { suggestionLines, suggestions } from "../../../../shared/cli/completion.js";

const program = new Command("p");
const group = program.command("fruit").description("about\n  fruit");
group
  .command("peel")
  .alias("skin")
  .option("--knife <name>", "what with")
  .addOption(new Option("-c, --colour <colour>", "which").choices(["red", "green"]))
  .option("--fast", "soon")
  .addArgument(new Argument("<kind>").choices(["apple", "pear"]))
  .argument("[file]");
group.command("secret", { hidden: true });
program.command("frame");

const words = (...typed: readonly string[]): readonly string[] =>
  suggestions(program, typed).map(({ word }) => word);

test("commands, but not hidden ones", () => {
  assert.deepEqual(words(""), ["fruit", "frame", "help"]);
  assert.deepEqual(words("fr"), ["fruit", "frame"]);
  assert.deepEqual(words("fruit", ""), ["peel", "help"]);
  assert.deepEqual(words("nothing", ""), ["fruit", "frame", "help"]);
  assert.deepEqual(words(), ["fruit", "frame", "help"]);
});

test("options, and the choices of their values", () => {
  assert.deepEqual(words("fruit", "peel", "--"), ["--knife", "--colour", "--fast", "--help"]);
  assert.deepEqual(words("fruit", "skin", "--f"), ["--fast"]);
  assert.deepEqual(words("fruit", "peel", "--colour", ""), ["red", "green"]);
  assert.deepEqual(words("fruit", "peel", "-c", "g"), ["green"]);
  assert.deepEqual(words("fruit", "peel", "--colour=r"), ["--colour=red"]);
  // A name of the user's: nothing is known of it, and the shell may complete files.
  assert.deepEqual(words("fruit", "peel", "--knife", ""), []);
});

test("choices of the argument that comes next", () => {
  assert.deepEqual(words("fruit", "peel", ""), ["apple", "pear"]);
  assert.deepEqual(words("fruit", "peel", "--fast", "--knife", "x", "p"), ["pear"]);
  assert.deepEqual(words("fruit", "peel", "apple", ""), []);
});

test("a line for each, without what would break it", () => {
  assert.equal(suggestionLines(suggestions(program, ["fru"])), "fruit\tabout fruit\n");
  assert.equal(suggestionLines([]), "");
});

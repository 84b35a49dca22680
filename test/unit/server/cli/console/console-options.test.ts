/** The options that a console gives to its commands. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { Command } from "commander";
import { ConsoleOptions } from "../../../../../server/cli/console/console-options.js";
import { addGlobalOptions } from "../../../../../server/cli/context.js";

const startedWith = (...words: string[]): ConsoleOptions =>
  new ConsoleOptions(addGlobalOptions(new Command()).parse(words, { from: "user" }));

test("commands get what the console was started with, and what `use` has changed", () => {
  const options = startedWith("--home", "/h", "--fleet", "cars", "--verbose");
  assert.deepEqual(options.words, ["--home", "/h", "--fleet", "cars", "--verbose"]);
  options.use(["--fleet", "vans", "-o", "json"]);
  assert.deepEqual(options.words, ["--home", "/h", "--fleet", "vans", "--verbose", "--output", "json"]);
  assert.equal(options.describe(), "vans");
});

test("of home, server and context one is named", () => {
  const options = startedWith("--home", "/h", "--fleet", "cars");
  options.use(["--server", "https://stemma.example:8083"]);
  assert.deepEqual(options.words, ["--fleet", "cars", "--server", "https://stemma.example:8083"]);
  assert.equal(options.describe(), "cars@stemma.example:8083");
});

test("what cannot be used is refused, and changes nothing", () => {
  const options = startedWith("--home", "/h");
  for (const words of [[], ["cars"], ["--fleet", "vans", "model", "list"], ["-o", "xml"], ["--bogus"]])
    assert.throws(
      () => {
        options.use(words);
      },
      { code: "USAGE" },
    );
  assert.deepEqual(options.words, ["--home", "/h"]);
});

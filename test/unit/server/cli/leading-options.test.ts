/** Global options may come before the command. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { Command } from "commander";
import { splitLeadingOptions, withLeadingOptions } from "../../../../server/cli/leading-options.js";

const program = new Command("stemma");
program.command("model").command("list");
program.command("doctor");
program.command("agent");

function reordered(line: string): string {
  const { leading, rest } = splitLeadingOptions(line.split(" "));
  return withLeadingOptions(program, leading, rest).join(" ");
}

test("options before the command go behind its words, in their order", () => {
  assert.equal(reordered("--home /h model list --all"), "model list --home /h --all");
  assert.equal(reordered("--home=/h -o json --verbose doctor"), "doctor --home=/h -o json --verbose");
  assert.equal(reordered("-ojson model list"), "model list -ojson");
});

test("options before the agent's command go behind all that its program gets", () => {
  assert.equal(reordered("--home /h agent samples list cam"), "agent samples list cam --home /h");
});

test("of an option given twice the last one counts, as everywhere", () => {
  assert.equal(reordered("--fleet a model list --fleet b"), "model list --fleet a --fleet b");
});

test("the value of an option is not taken for the command", () => {
  assert.equal(reordered("--home model model list"), "model list --home model");
});

test("what is not a global option stays where it is, for the parser to report", () => {
  for (const line of ["--bogus model list", "--version", "--help", "model --home /h list"])
    assert.equal(reordered(line), line);
});

/** Lines of the console are cut into words as a shell does it. */
import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { quoteWord, splitWords } from "../../../../../server/cli/console/split-words.js";

test("quotes, backslashes and comments are those of a shell", () => {
  const expected: readonly (readonly [string, readonly string[]])[] = [
    ["  model   list\t--all ", ["model", "list", "--all"]],
    ["data add 'my file.csv' --name \"a b\"", ["data", "add", "my file.csv", "--name", "a b"]],
    ["a'b c'd", ["ab cd"]],
    ["''", [""]],
    [`"say \\"no\\" \\\\ \\n"`, [`say "no" \\ \\n`]],
    ["a\\ b \\'c", ["a b", "'c"]],
    ["list # all of them", ["list"]],
    ["# only a comment", []],
    ["note=a#b", ["note=a#b"]],
    ["--where accuracy>=0.9", ["--where", "accuracy>=0.9"]],
    ["log '|'", ["log", "|"]],
    ["ends with \\", ["ends", "with", "\\"]],
  ];
  for (const [line, words] of expected) assert.deepEqual(splitWords(line), words, line);
});

test("what only a shell can do, and quotes that stay open, are refused", () => {
  for (const line of [
    "model list | head",
    "a && b",
    "model list > file",
    "x ; y",
    "say 'no",
    'say "no',
    '"a\\"',
  ])
    assert.throws(() => splitWords(line), { code: "USAGE" }, line);
});

test("a quoted word is read back as it was", () => {
  fc.assert(
    fc.property(fc.array(fc.string({ unit: "grapheme" })), (words) => {
      // A line of the console has no line breaks.
      const typable = words.filter((word) => !/[\r\n\u2028\u2029]/.test(word));
      assert.deepEqual(splitWords(typable.map(quoteWord).join(" ")), typable);
    }),
  );
});

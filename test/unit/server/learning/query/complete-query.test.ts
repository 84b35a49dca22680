/** The words that may follow the beginning of a query: those of the grammar, attributes, templates. */
import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { attributes } from "../../../../../server/learning/query/attributes.js";
import { completeQuery } from "../../../../../server/learning/query/complete-query.js";
import { parseQuery } from "../../../../../server/learning/query/parse-query.js";

test("words of the grammar, where they may stand", () => {
  assert.deepEqual(completeQuery(""), ["construct", "evaluate", "select", "slice"]);
  assert.deepEqual(completeQuery("sel"), ["select"]);
  assert.deepEqual(completeQuery("select m "), ["from", "where"]);
  assert.deepEqual(completeQuery("select m where m."), [...Object.keys(attributes), "config"].sort());
  assert.deepEqual(completeQuery('select m where m.name like "a" an'), ["and"]);
  assert.deepEqual(completeQuery('select m where m["conv*"].n'), ["next"]);
  assert.deepEqual(completeQuery("select a, b where a an"), ["ancestor"]);
  assert.deepEqual(completeQuery('select m where m["conv*"] has R'), ["RELU", "RNN"]);
  assert.deepEqual(completeQuery("select m where m.held = t"), ["true"]);
});

test("nothing inside of a text, after an error, or of a text without end", () => {
  for (const text of ['select m where m.name like "se', "select m wher m.", "selectm ", "x".repeat(20_000)])
    assert.deepEqual(completeQuery(text), [], text.slice(0, 40));
});

test("never fails, and what it offers after a query's beginning lets the grammar go further", () => {
  const whole =
    'select m, n where m.name like "a%" and (m["loss", 3] < 0.5 or not n ancestor of m) and m["c*"].next has RELU("x$1")';
  fc.assert(
    fc.property(fc.nat(whole.length), (end) => {
      const text = whole.slice(0, end);
      const typed = /\w*$/.exec(text)?.[0] ?? "";
      for (const word of completeQuery(text)) {
        const longer = `${text.slice(0, text.length - typed.length)}${word} `;
        const offset = ((): number => {
          try {
            parseQuery(longer);
            return longer.length;
          } catch (error) {
            return (error as { details: { column: number } }).details.column - 1;
          }
        })();
        assert.ok(offset >= longer.trimEnd().length, `${longer}: ${offset}`);
      }
    }),
  );
  fc.assert(fc.property(fc.string(), (text) => void completeQuery(text)));
});

/** The parser of queries: the paper's query, and errors that point at their place. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { compileSelect } from "../../../../../server/learning/query/compile-query.js";
import { maxQueryCharacters, parseQuery } from "../../../../../server/learning/query/parse-query.js";
import { compileDerivation } from "../../../../../server/learning/query/derive/compile-derivation.js";
import type { Select } from "../../../../../server/learning/query/syntax.js";
import { isStemmaError } from "../../../../../shared/errors.js";

function parseSelect(text: string): Select {
  const statement = parseQuery(text);
  assert.ok(statement.kind === "select");
  return statement;
}

function compile(text: string): unknown {
  const statement = parseQuery(text);
  assert.ok(statement.kind !== "evaluate");
  return statement.kind === "select" ? compileSelect(statement, text) : compileDerivation(statement, text);
}

test("the paper's Query 1 is read as it is written", () => {
  const { variables, where } = parseSelect(`select m1
where m1.name like "alexnet_%" and
      m1.creation_time > "2015-11-22" and
      m1["conv[1,3,5]"].next has POOL("MAX")`);
  assert.deepEqual(variables, [{ name: "m1", at: 7 }]);
  assert.ok(where?.kind === "and");
  assert.deepEqual(
    where.of.map(({ kind }) => kind),
    ["like", "compare", "has"],
  );
});

test("keywords have any case, texts either quotes and escapes, and comments are left out", () => {
  const texts = [
    `select m where m.name = "a\\"b'\\\\"`,
    `SELECT m -- all of them\nWhere m.name = 'a"b\\'\\\\'`,
  ];
  const values = texts.map((text) => {
    const { where } = parseSelect(text);
    return where?.kind === "compare" && where.right.kind === "literal" ? where.right.value : undefined;
  });
  assert.deepEqual(values, [`a"b'\\`, `a"b'\\`]);
});

/** Query → line and column of the error, and a part of its message. */
const wrong: readonly (readonly [query: string, line: number, column: number, message: RegExp])[] = [
  ["", 1, 1, /expected "evaluate", "select", "construct" or "slice", but there is the end/],
  ["select m1 wher", 1, 11, /expected ",", "from", "where" or the end, but there is "wher"/],
  ['select m where m.name lik "x"', 1, 23, /like", "in" or "is"|"like"/],
  [
    "select m where m.name = ",
    1,
    25,
    /expected a (variable or a value|value or a variable), but there is the end/,
  ],
  ["select m where m.name = 'abc", 1, 25, /one that does not end/],
  ['select m where m.nam = "x"', 1, 16, /nam is not an attribute; there are id, name/],
  [
    'select m\nwhere m.name = "a" and\n  m.number = "3"',
    3,
    3,
    /this is a number, and it is compared with a text/,
  ],
  ['select m where m.creation_time > "soon"', 1, 34, /not a time/],
  ["select m where x.number = 1", 1, 16, /x is not selected; the query selects m/],
  ["select m, m", 1, 11, /selected twice/],
  ["select a, b, c, d, e", 1, 20, /more than 4 variables/],
  ["select m where m in (select a, b)", 1, 32, /selects one variable/],
  ['select m where m["a"].next has POOOL()', 1, 32, /POOOL is not a template; there are CONV/],
  ['select m where m["a[1"].next has RELU()', 1, 19, /"\]" is missing/],
  ['select m where m["a($1)"].next has RELU()', 1, 19, /\(\$1\) does not stand/],
  ['select m where m["a*"].next has RELU("relu$1")', 1, 38, /\$1 is used, and the selector has no/],
  [
    'select m where m["a"].next has DENSE(10)',
    1,
    38,
    /expected a name, a text in quotes or "\)", but there is "10"/,
  ],
  ["select m where m.\u202ename = 1", 1, 18, /expected a name, but there is the character U\+202E/],
  ["select m where m.held < true", 1, 16, /truth values are compared with = and !=/],
  ["select m where m.config = 1", 1, 16, /a hyper-parameter has a name/],
  ["select m where m child of m", 1, 27, /not related to itself/],
  ["select m where m.number like '1'", 1, 16, /like compares texts/],
  [`select m where m["${"a".repeat(257)}"] has RELU()`, 1, 19, /at most 256 characters/],
  [`select m where m["a"]${".next".repeat(9)} has RELU()`, 1, 18, /more than 8 steps/],
  [`select m where ${"(".repeat(40)}`, 1, 48, /more than 32 parentheses/],
  ["construct b from a", 1, 19, /expected "mutate" or "where", but there is the end|"mutate"/],
  ['construct a from a mutate a["x"].insert = RELU("r")', 1, 18, /a cannot stand for the source too/],
  ['construct b from a mutate b["x"].insert = RELU("r")', 1, 27, /layers are selected in the source, a/],
  ['construct b from a mutate a["x"].insert = RELU()', 1, 43, /the new layer has no name/],
  ['construct b from a mutate a["x*"].insert = RELU("r$1")', 1, 49, /\$1 is used/],
  ['construct b from a mutate a["x"].insert = POOL("r")', 1, 43, /POOL has the kinds "MAX" and "AVG"/],
  ['construct b from a mutate a["x"].insert = DENSE("r")', 1, 43, /Dense: it lacks its setting units/],
  ['slice b from a mutate a.input = a["x"] and b.output = a["y"]', 1, 23, /a slice sets b\.input/],
  ['slice b from a mutate b.output = a["x"] and b.input = a["y"]', 1, 23, /b\.input comes first/],
  ['select m where m["x"] has DENSE(layer=GRU(units=1))', 1, 39, /a wrapper is also what it holds/],
];
for (const [query, line, column, message] of wrong)
  test(`an error points at its place: ${query.slice(0, 50)}`, () => {
    assert.throws(
      () => compile(query),
      (error) => {
        assert.ok(isStemmaError(error, "QUERY_INVALID"), String(error));
        assert.deepEqual(error.details, { line, column });
        assert.match(error.message, message);
        const [, shown = "", mark = ""] = error.message.split("\n").slice(-3);
        assert.equal(mark.trim(), "^");
        const pointedAt = (query.split("\n")[line - 1] ?? "").slice(column - 1, column + 9);
        assert.ok(shown.slice(mark.length - 1).startsWith(pointedAt.replace("\u202e", "?")), error.message);
        return true;
      },
    );
  });

test("a query that is too long is refused before it is read", () => {
  assert.throws(() => parseQuery(" ".repeat(maxQueryCharacters + 1)), { code: "QUERY_TOO_LARGE" });
});

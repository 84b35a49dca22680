/**
 * What commands print: machine-readable formats unchanged, text without control characters that could steer
 * the terminal.
 */
import assert from "node:assert/strict";
import { PassThrough } from "node:stream";
import { test } from "node:test";
import { formatDuration, Output, type OutputForm } from "../../../../shared/cli/output.js";
import { renderTable } from "../../../../shared/cli/table.js";

function printed(form: OutputForm, name: string): string {
  const stdout = new PassThrough();
  const output = new Output(form, stdout, new PassThrough());
  output.print({
    data: { name },
    names: [name],
    table: { rows: [name], columns: [{ title: "NAME", value: (row) => row }] },
    text: `first ${name}\nsecond`,
  });
  return String(stdout.read());
}

test("names from files and devices cannot control a terminal that shows them", () => {
  const hostile = "a\u001b[2Jb\u202ec\rd\u009b31m\u0007";
  const table = printed("table", hostile);
  assert.doesNotMatch(table, /[\u0000-\u0009\u000b-\u001f\u007f-\u009f\u202e]/);
  assert.ok(table.includes("a\\u{1b}[2Jb\\u{202e}c\\u{d}d\\u{9b}31m\\u{7}"), table);
  assert.equal(table.split("\n").length, 5, "title, row, two lines of text");
});

test("a name with a line feed stays in its row; letters of every script stay as they are", () => {
  assert.ok(printed("table", "x\ny").includes("x\\u{a}y"));
  assert.ok(printed("table", "ü-模型-🚗").includes("ü-模型-🚗"));
});

test("names that look alike by what is not seen are told apart", () => {
  const invisible = "\u00ad\u034f\u115f\u180e\u200b\u200d\u2060\u3164\ufe0f\ufeff\u{e0041}";
  for (const character of [...invisible, "\u00a0", "\u2003", "\u3000", "\ud800"])
    assert.ok(
      printed("table", `so${character}h`).includes(`so\\u{${character.codePointAt(0)?.toString(16)}}h`),
    );
  assert.ok(printed("table", "a b").includes("a b"));
});

test("programs get names unchanged", () => {
  const name = "a\u001b[2Jb";
  assert.deepEqual(JSON.parse(printed("json", name)), { name });
  assert.equal(printed("name", name), `${name}\n`);
});

test("columns are as wide as their widest cell, also where letters take two places", () => {
  const rows = [
    { name: "front-cam", bytes: 7 },
    { name: "模型", bytes: 12345 },
  ];
  assert.equal(
    renderTable(rows, [
      { title: "NAME", value: ({ name }) => name },
      { title: "BYTES", value: ({ bytes }) => bytes, align: "right" },
      { title: "LINE", value: () => undefined },
    ]),
    ["NAME       BYTES  LINE", "front-cam      7  -", "模型       12345  -", ""].join("\n"),
  );
});

test("a table of 20,000 rows reads every cell once", () => {
  let reads = 0;
  const rows = Array.from({ length: 20_000 }, (_, row) => row);
  const text = renderTable(rows, [
    {
      title: "ROW",
      align: "right",
      value: (row) => {
        reads++;
        return row;
      },
    },
    { title: "NAME", value: (row) => `model-${row}` },
  ]);
  assert.equal(reads, rows.length);
  assert.equal(text.split("\n").at(-2), "19999  model-19999");
});

test("a duration has two units, and never sixty of the smaller one", () => {
  const [minuteMs, hourMs, dayMs] = [60_000, 3_600_000, 86_400_000] as const;
  for (const [ms, text] of [
    [850, "850 ms"],
    [999.7, "1.0 s"],
    [minuteMs - 30, "1 min 0 s"],
    [hourMs - 30, "1 h 0 min"],
    [4 * minuteMs + 10_000, "4 min 10 s"],
    [2 * minuteMs - 1, "2 min 0 s"],
    [2 * hourMs - 1, "2 h 0 min"],
    [47 * hourMs + 5 * minuteMs, "47 h 5 min"],
    [3 * dayMs - 1, "3 d 0 h"],
    [900 * dayMs + 3 * hourMs, "900 d 3 h"],
  ] as const)
    assert.equal(formatDuration(ms), text);
});

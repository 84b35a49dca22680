/** Lines that fit a terminal, also where letters take two places. */
import assert from "node:assert/strict";
import { PassThrough } from "node:stream";
import { test } from "node:test";
import { Output } from "../../../../shared/cli/output.js";
import { columnsOf, wrapLine, wrapText } from "../../../../shared/cli/text-width.js";

test("a line is broken between words, and what follows is indented by four more", () => {
  assert.deepEqual(wrapLine("  1 a worse: losses differ by 2 ± 0.1", 20), [
    "  1 a worse: losses",
    "      differ by 2 ±",
    "      0.1",
  ]);
  assert.deepEqual(wrapLine("  fits exactly", 14), ["  fits exactly"]);
  assert.deepEqual(wrapLine("", 10), [""]);
});

test("a word that is too wide alone stays whole", () => {
  const path = "/a/rather/long/path";
  assert.deepEqual(wrapText(`see ${path} first`, 10), ["see", path, "first"]);
  assert.deepEqual(wrapText(path, 10), [path]);
});

test("letters that take two places count as two", () => {
  assert.deepEqual(wrapText("模型 模型 模型", 9), ["模型 模型", "模型"]);
});

test("a command breaks its lines at the width of its terminal, and at 80 columns where there is none", () => {
  const words = Array.from({ length: 200 }, (_, at) => `word${at}`).join(" ");
  for (const columns of [undefined, 40, 132]) {
    const terminal = Object.assign(new PassThrough(), columns === undefined ? {} : { isTTY: true, columns });
    const lines = new Output("table", terminal, new PassThrough()).wrap([`  ${words}`, "short"]).split("\n");
    const widest = Math.max(...lines.map(columnsOf));
    assert.ok(widest <= (columns ?? 80) && widest > (columns ?? 80) - 8, `${widest} columns`);
    assert.equal(lines.at(-1), "short");
    assert.equal(
      lines
        .slice(0, -1)
        .map((line) => line.trim())
        .join(" "),
      words,
    );
  }
});

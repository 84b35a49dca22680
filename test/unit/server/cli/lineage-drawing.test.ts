/** Lineage as characters, Graphviz and SVG. */
import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import type { LineageVersion } from "../../../../server/interface/api/models/lineage-definitions.js";
import { lineageDot } from "../../../../server/cli/lineage-dot.js";
import { drawLanes } from "../../../../server/cli/lineage-lanes.js";
import { lineageSvg } from "../../../../server/cli/lineage-svg.js";
import { lineageLines } from "../../../../server/cli/lineage-text.js";
import type { Hash } from "../../../../shared/tensor/tensor.js";

const idOf = (number: number): Hash => number.toString(16).padStart(64, "0") as Hash;

/** Version i has the bases `bases[i]`; newest first, as operations give them. */
function versionsOf(bases: readonly (readonly number[])[], name = "m"): readonly LineageVersion[] {
  return bases
    .map((from, i) => ({
      versionId: idOf(i),
      name,
      version: i,
      state: "stored" as const,
      tags: [],
      held: false,
      device: "",
      line: "",
      savedAtMs: 0,
      clockErrorMs: null,
      recordedAtMs: 0,
      ownBytes: 1,
      bases: from.map(idOf),
      after: [],
    }))
    .reverse();
}

const charactersOf = (bases: readonly (readonly number[])[]): readonly string[] =>
  drawLanes(versionsOf(bases)).map(
    ({ cells, version }) =>
      `${cells.map(({ character }) => character).join("")}${version === undefined ? "" : ` ${version.version}`}`,
  );

test("lanes are those of git log --graph", () => {
  assert.deepEqual(charactersOf([[], [0], [1], [1], [0], [2, 4], [5]]), [
    "* 6",
    "* 5",
    "|\\",
    "| * 4",
    "| | * 3",
    "* | | 2",
    "| |/",
    "|/|",
    "* | 1",
    "|/",
    "* 0",
  ]);
});

test("a base with hundreds of children needs two lanes", () => {
  const lines = drawLanes(versionsOf(Array.from({ length: 500 }, (_, i) => (i === 0 ? [] : [0]))));
  assert.equal(Math.max(...lines.map(({ cells }) => cells.length)), 3);
  assert.ok(lines.length < 1000);
});

const graphs = fc
  .array(fc.array(fc.nat(), { maxLength: 3 }), { minLength: 1, maxLength: 40 })
  .map((picks) => picks.map((pick, i) => (i === 0 ? [] : pick.map((number) => number % i))));

test("any graph is drawn within 80 columns, each version once, the ends of all lanes joined", () => {
  fc.assert(
    fc.property(graphs, (bases) => {
      const versions = versionsOf(
        bases,
        "a name that is so long that it alone is wider than 80 columns, or nearly",
      );
      const lines = lineageLines(versions, { columns: 80, hasColours: false });
      assert.ok(lines.every((line) => [...line].length <= 80));
      const drawn = drawLanes(versions);
      assert.deepEqual(
        drawn.flatMap(({ version }) => version ?? []),
        versions,
      );
      // After the oldest version nothing leads on.
      assert.equal(drawn.at(-1)?.version?.version, 0);
      assert.equal(drawn.at(-1)?.cells.length, 1);
    }),
  );
});

test("names from outside control neither a terminal nor a file", () => {
  const versions = versionsOf([[], [0]], '\u001b[2J"</text>\n"]; x');
  const plain = lineageLines(versions, { columns: 80, hasColours: false }).join("\n");
  assert.ok(!plain.includes("\u001b"));
  assert.match(lineageLines(versions, { columns: 80, hasColours: true })[1] ?? "", /\u001b\[33m\\u\{1b\}/);
  assert.equal(lineageDot(versions).split("\n").length, 8);
  assert.ok(!lineageSvg(versions).includes('"</text>\n"'));
});

test("edges of the picture pass no other version", () => {
  fc.assert(
    fc.property(graphs, (bases) => {
      const svg = lineageSvg(versionsOf(bases));
      const at = new Set([...svg.matchAll(/<circle cx="(\d+)" cy="(\d+)"/g)].map(([, x, y]) => `${x} ${y}`));
      assert.equal(at.size, bases.length);
      for (const [, x = "", from = "", to = ""] of svg.matchAll(/(?=[ML ](\d+) (\d+)L\1 (\d+))/g))
        for (let y = Number(from) + 1; y < Number(to); y++) assert.ok(!at.has(`${x} ${y}`), `${x} ${y}`);
    }),
  );
});

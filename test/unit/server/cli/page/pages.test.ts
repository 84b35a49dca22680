/** Pages are well formed, complete and closed to everything that is not theirs. */
import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { test } from "node:test";
import { chart } from "../../../../../server/cli/page/chart.js";
import { pageScript } from "../../../../../server/cli/page/page-script.js";
import { tree } from "../../../../../server/cli/page/tree.js";
import { listedVersions, listPage, measurementsOf, pageExamples } from "../../../../helpers/page-examples.js";

const unclosed = new Set(["meta", "input", "line", "circle", "path", "rect"]);

/** Fails where an element is not closed, or another one is. */
function checkElements(text: string): void {
  const open: string[] = [];
  const outside = text.replace(/<(style|script)>[^]*?<\/\1>/g, "");
  for (const [, slash, name = ""] of outside.matchAll(
    /<(\/?)([a-z][a-z0-9]*)(?:\s+[a-z:-]+(?:="[^"<>]*")?)*\s*\/?>/gi,
  )) {
    if (slash === "/") assert.equal(open.pop(), name);
    else if (!unclosed.has(name)) open.push(name);
  }
  assert.deepEqual(open, []);
  assert.doesNotMatch(outside.replace(/<!doctype html>|<\/?[a-z][^<>]*>/gi, ""), /[<>]/);
}
const hashOf = (text: string | undefined): string =>
  `'sha256-${createHash("sha256")
    .update(text ?? "")
    .digest("base64")}'`;
const count = (text: string, part: RegExp): number => text.match(part)?.length ?? 0;

for (const [name, { make }] of Object.entries(pageExamples))
  test(`${name}: well formed, with its own style and script alone, at most 12 MB`, () => {
    const text = make();
    checkElements(text);
    const [, policy = ""] = /Content-Security-Policy" content="([^"]*)"/.exec(text) ?? [];
    const [, style] = /<style>([^]*?)<\/style>/.exec(text) ?? [];
    assert.equal(
      policy,
      `default-src 'none'; script-src ${hashOf(pageScript)}; style-src ${hashOf(style)}; base-uri 'none'; form-action 'none'`,
    );
    assert.equal(count(text, /<script/g), 1);
    assert.ok(text.endsWith(`<script>${pageScript}</script>\n</body>\n</html>\n`));
    for (const [tag] of text.replace(/<script>[^]*$/, "").matchAll(/<[a-z][^<>]*>/gi)) {
      assert.doesNotMatch(tag.replace(/"[^"]*"/g, '""'), /\s(?:on[a-z]+|style|src|srcset|action)=/i);
      assert.doesNotMatch(tag, /href="[^#]/);
    }
    assert.doesNotMatch(style ?? "", /url\(|@import/);
    const ids = [...text.matchAll(/ id="([^"]*)"/g)].map(([, id]) => id);
    assert.equal(new Set(ids).size, ids.length);
    assert.ok(Buffer.byteLength(text) < 12_000_000);
  });

test("every version, layer and tensor has one row", () => {
  const list = listPage(listedVersions(120, (at) => `model-${at}`));
  assert.equal(count(list, /<tr\s+role="row"\s+id="v-/g), 120);
  for (const at of [0, 60, 119])
    assert.equal(count(list, new RegExp(`<summary>model-${at}:${at + 1}</summary>`, "g")), 1);
  const version = pageExamples["a version of 1000 layers"]?.make() ?? "";
  assert.equal(count(version, />block_\d+\/layer_\d+<\/th>/g), 1000);
  assert.equal(count(version, />block_\d+\/layer_\d+\/kernel<\/th>/g), 750);
});

test("a chart has its ticks at equal distances, decades for wide ranges, and no end of points", () => {
  const ticksOf = (values: readonly (number | null)[]): readonly string[] => {
    const points = values.map((value, at) => ({ iteration: at, value }));
    const [, axis = ""] =
      /class="y-axis" aria-hidden="true">(.*?)<\/div>/.exec(
        chart("m", [{ name: "m", hue: 0, points }]).toString(),
      ) ?? [];
    return [...axis.matchAll(/<span>(.*?)<\/span>/g)].map(([, tick = ""]) => tick);
  };
  assert.deepEqual(ticksOf([0.4, null, 0.8]), ["0.8", "0.7", "0.6", "0.5", "0.4"]);
  assert.deepEqual(ticksOf([1e-6, 0.05]), ["0.1", "0.01", "0.001", "1e-4", "1e-5", "1e-6"]);
  assert.deepEqual(ticksOf([5, 5]), ["8", "7", "6", "5", "4", "3", "2"]);
  assert.deepEqual(
    ticksOf([-1.7e308, 1.7e308]).every((tick) => !/NaN|Infinity/.test(tick)),
    true,
  );
  assert.match(
    chart("m", [{ name: "m", hue: 0, points: [{ iteration: 0, value: null }] }]).toString(),
    /No value/,
  );
  const long = measurementsOf(10_000).map(({ iteration, loss }) => ({ iteration, value: loss }));
  const drawn = chart("loss", [{ name: "loss", hue: 0, points: long }]).toString();
  assert.ok(drawn.length < 12_000);
  assert.doesNotMatch(drawn, /NaN/);
});

test("a tree ends: deep, wide and empty values", () => {
  const deep = JSON.parse("[".repeat(500) + "]".repeat(500)) as unknown;
  assert.ok(count(tree(deep).toString(), /<details/g) <= 64);
  assert.match(tree(Array.from({ length: 20_000 }, (_, at) => at)).toString(), /and 15000 more/);
  assert.match(tree({ a: {}, b: null }).toString(), /<code>\{\}<\/code>[^]*<code>null<\/code>/);
});

/** The demo shows commands as a person can paste them, in 78 columns, and says no more than it measured. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { pickVersions, type SavedModel } from "../../../../../server/cli/demo/compare-recovered.js";
import type { ChildProcesses } from "../../../../../server/cli/demo/child-processes.js";
import { commandLines, DemoScript, firstLines } from "../../../../../server/cli/demo/demo-script.js";
import type { Output } from "../../../../../shared/cli/output.js";
import type { ProcessStart } from "../../../../../shared/adapters/own-program.js";
import { metricsOf, shareText } from "../../../../../server/cli/demo/summary.js";

type Program = Pick<ProcessStart, "program" | "args">;

test("a command is broken between words, an option with its value, and quoted as a shell needs it", () => {
  assert.deepEqual(commandLines(["stemma", "rollout", "undo", "a", "--because", "it's over"]), [
    "$ stemma rollout undo a --because 'it'\\''s over'",
  ]);
  const words = Array.from({ length: 12 }, (_, at) => [`--option-${at}`, "x".repeat(at)]).flat();
  const lines = commandLines(["stemma", ...words], " &");
  assert.ok(lines.every((line) => line.length <= 78));
  assert.ok(lines.slice(0, -1).every((line) => line.endsWith(" \\")));
  const joined = lines.map((line) => line.replace(/ \\$/, "").trim()).join(" ");
  assert.equal(joined, `$ stemma ${words.map((word) => (word === "" ? "''" : word)).join(" ")} &`);
});

test("agents run from the executable that is named, everything else from this program", async () => {
  const started: string[] = [];
  const note = ({ program, args }: Program): void => {
    started.push(
      [program === process.execPath ? "node" : program, ...args].join(" ").replaceAll(/\S*\/dist\//g, ""),
    );
  };
  const processes = {
    start: (_: string, program: Program) => {
      note(program);
    },
    run: (program: Program) => {
      note(program);
      return Promise.resolve({ status: 0, stdout: "", stderr: "" });
    },
  } as unknown as ChildProcesses;
  const output = { info: () => undefined } as unknown as Output;
  const common = { processes, output, programs: "/x/dist", environment: {} };
  for (const agent of [undefined, "/x/stemma-agent"]) {
    const script = new DemoScript({ ...common, agent });
    script.start("a", ["agent", "run"]);
    script.start("s", ["server"]);
    await script.tell(["agent", "status"]);
    await script.tell(["model", "list"]);
  }
  assert.deepEqual(started, [
    ...["node agent/cli/main.js run", "node server/cli/main.js server"],
    ...["node bundle/agent.cjs status", "node bundle/stemma.cjs model list"],
    ...["/x/stemma-agent run", "node server/cli/main.js server"],
    ...["/x/stemma-agent status", "node bundle/stemma.cjs model list"],
  ]);
});

test("what a command printed is shortened to its first lines, and says so", () => {
  assert.deepEqual(firstLines("one\n\ntwo\n"), ["  one", "  two"]);
  assert.deepEqual(firstLines("1\n2\n3\n", 2), ["  1", "  2 …"]);
  assert.ok(firstLines("word ".repeat(60), 9).every((line) => line.length <= 78));
  assert.deepEqual(firstLines("one two\n    three\n  four\n"), ["  one two three", "    four"]);
});

test("the oldest and the newest version of every line are recovered", () => {
  const model = (device: string, version: number): SavedModel =>
    ({ versionId: `${device}${version}`, name: "m", version, record: { device, line: "l" } }) as SavedModel;
  const models = [model("a", 1), model("b", 1), model("a", 2), model("a", 3), model("c", 1)];
  assert.deepEqual(
    pickVersions(models, 0, () => 0).map(({ versionId }) => versionId),
    ["a1", "b1", "a3", "c1"],
  );
  assert.equal(pickVersions(models, 4, () => 0).length, models.length);
});

test("the share that was sent is of what plain copies take", () => {
  const sent = [
    { wireBytes: 100, tensorBytes: 1000 },
    { wireBytes: 50, tensorBytes: 0 },
  ];
  assert.equal(shareText(sent), "150 B sent instead of 1.00 kB of plain copies: 15 %");
});

test("a model's metric is told beside that of its line's first one", () => {
  const model = (device: string, version: number): SavedModel =>
    ({ versionId: `${device}${version}`, name: "m", version, record: { device, line: "l" } }) as SavedModel;
  const stated = (before: number, after: number) => ({
    "metric.name": "error",
    "metric.unit": "%",
    "metric.before": before,
    "metric.after": after,
  });
  const metadata = new Map([
    ["a1", stated(3.14, 2.5)],
    ["a2", stated(2.5, 1.9)],
  ]);
  assert.deepEqual(
    metricsOf([model("a", 1), model("b", 1), model("a", 2)], metadata).map(({ metric }) => metric),
    ["error 3.1 % → 2.5 %", "-", "error 3.1 % → 1.9 %"],
  );
});

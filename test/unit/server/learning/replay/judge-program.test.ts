/** Verdicts on a program that was run again: what differs of the machine never refutes a record, and is named. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { judgeProgram, type ProgramRun } from "../../../../../server/learning/replay/judge-program.js";
import type { CanonicalValue } from "../../../../../shared/model/canonical-json.js";
import { noMetrics } from "../../../../../shared/programs/metrics.js";
import { readProgramRecord } from "../../../../../shared/programs/program-record.js";
import type { ProgramRecord } from "../../../../../shared/provenance/provenance.js";
import { sha256 } from "../../../../../shared/tensor/hash.js";

const id = sha256("program");
const machine = { os: "Linux", arch: "x64", cpu: "A", libc: "2.36", interpreter: id };
const program: ProgramRecord = {
  bundle: id,
  job: id,
  limits: { memoryLimitMb: 64, threads: 1, timeoutSeconds: 5, maxOutputBytes: 4096 },
  machine,
};
const provenance = {
  engine: undefined,
  recipe: undefined,
  exactness: "none" as const,
  bases: [id],
  data: [],
  environment: id,
  committed: { program: id },
};
const run: ProgramRun = {
  story: { program, parameters: {}, seed: "1", invocation: 0, base: id, data: undefined },
  program: {
    exec: [{ interpreter: "python3" }],
    files: [{ path: "requirements.lock", bytes: new Uint8Array(), isExecutable: false }],
    lock: 0,
    variables: {},
    withheld: [],
  },
  here: machine,
  parts: { opened: { provenance, openings: {} } },
  output: noMetrics,
  difference: undefined,
  isOtherForm: false,
  ran: { workMs: 1 },
};
const difference = { tensors: 1, first: "w" };
const elsewhere = { ...machine, cpu: "B" };

test("equal tensors prove on any machine, and say what was another one and what was not looked at", () => {
  const here = judgeProgram(run);
  assert.equal(here.verdict, "proved");
  assert.match(here.text, /recorded bytes\. That its libraries here are those of requirements\.lock is not/);
  assert.match(
    judgeProgram({ ...run, here: elsewhere }).text,
    /Here was other than on its device: the processor\./,
  );
  const metadata = { "metric.after": 1 };
  const measured = { ...run, parts: { ...run.parts, metadata }, output: { ...noMetrics, metadata } };
  assert.match(judgeProgram(measured).text, /metric and losses that are recorded came out the same/);
});

test("other tensors refute only where nothing else that is known differs", () => {
  assert.deepEqual([judgeProgram({ ...run, difference }).verdict], ["refuted"]);
  for (const other of [
    { here: elsewhere },
    { here: { ...machine, interpreter: sha256("other") } },
    { program: { ...run.program, withheld: ["TOKEN"] } },
  ]) {
    const { verdict, reason, text } = judgeProgram({ ...run, difference, ...other });
    assert.deepEqual([verdict, reason], ["unreplayable", "other-class"]);
    assert.match(
      text,
      /That proves nothing: here was other than on its device: the (processor|interpreter|variable TOKEN)\./,
    );
  }
  assert.deepEqual(judgeProgram({ ...run, isOtherForm: true }).members, ["record.architecture"]);
});

test("libraries that differ refute nothing, and the first is named without controlling a terminal", () => {
  const loaded = (...names: readonly string[]) => [
    { program: "python3", libraries: names.map((name) => ({ name, sha256: id })) },
  ];
  const judged = (recorded: readonly string[] | undefined, here: readonly string[] | undefined, more = {}) =>
    judgeProgram({
      ...run,
      difference,
      story: { ...run.story, program: { ...program, ...(recorded && { libraries: loaded(...recorded) }) } },
      librariesHere: here && loaded(...here),
      ...more,
    });
  const other = judged(["a.so", "\u001b[2J"], ["a.so", "b.so"]);
  assert.deepEqual(
    [other.verdict, other.reason, other.libraries?.verdict],
    ["unreplayable", "other-class", "different"],
  );
  assert.match(other.text, /library 2 of python3 is b\.so, and was \\u\{1b\}\[2J\.$/);
  // What else a program started is its own doing.
  const started = [...loaded("a.so"), { program: "touch", libraries: [] }];
  const more = judged(["a.so"], ["a.so"], { librariesHere: started });
  assert.deepEqual([more.verdict, more.libraries?.verdict], ["refuted", "different"]);
  const same = judged(["a.so"], ["a.so"]);
  assert.deepEqual(
    [same.verdict, same.libraries?.text],
    ["refuted", "1 library in the same order and with the same content"],
  );
  assert.match(same.text, /\(random numbers, time, threads: stemma/);
  const proved = judged(["a.so"], ["a.so"], { difference: undefined });
  assert.match(proved.text, /It loaded 1 library in the same order and with the same content\./);
  for (const [recorded, here] of [
    [undefined, ["a.so"]],
    [["a.so"], undefined],
  ] as const)
    assert.equal(judged(recorded, here).libraries?.verdict, "not recorded");
});

test("what was replayed is said of it, and addresses that may differ refute nothing", () => {
  const replayed = { ...run, program: { ...run.program, recordsRandomness: true } };
  assert.match(
    judgeProgram(replayed).text,
    /^the program was run again with what it drew on its device, and every/,
  );
  const refuted = judgeProgram({ ...replayed, difference });
  assert.equal(refuted.verdict, "refuted");
  assert.match(refuted.text, /\(time, threads, addresses, libraries: stemma/);
  const moved = judgeProgram({ ...replayed, difference, mayHaveOtherAddresses: true });
  assert.deepEqual([moved.verdict, moved.reason], ["unreplayable", "other-class"]);
  assert.match(moved.text, /: perhaps the addresses of what it has in memory\.$/);
});

test("a statement on a program that is malformed is not read", () => {
  const stated = (more: object) => readProgramRecord({ ...program, ...more } as unknown as CanonicalValue);
  assert.deepEqual(stated({}), program);
  const more = { libraries: [{ program: "sh", libraries: [{ name: "libc.so.6" }] }], randomness: id };
  assert.deepEqual(stated(more), { ...program, ...more });
  for (const more of [
    { bundle: "x" },
    { job: 1 },
    { limits: null },
    { limits: { ...program.limits, threads: 0 } },
    { limits: { ...program.limits, maxOutputBytes: 2 ** 52 } },
    { machine: { ...machine, cpu: "x".repeat(201) } },
    { machine: { ...machine, interpreter: "/usr/bin/python3" } },
    { machine: [] },
    { libraries: [] },
    { libraries: null },
    { randomness: "profile" },
  ])
    assert.equal(stated(more), undefined, JSON.stringify(more));
  assert.equal(readProgramRecord([]), undefined);
});

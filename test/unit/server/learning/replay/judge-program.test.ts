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

test("a statement on a program that is malformed is not read", () => {
  const stated = (more: object) => readProgramRecord({ ...program, ...more } as unknown as CanonicalValue);
  assert.deepEqual(stated({}), program);
  for (const more of [
    { bundle: "x" },
    { job: 1 },
    { limits: null },
    { limits: { ...program.limits, threads: 0 } },
    { limits: { ...program.limits, maxOutputBytes: 2 ** 52 } },
    { machine: { ...machine, cpu: "x".repeat(201) } },
    { machine: { ...machine, interpreter: "/usr/bin/python3" } },
    { machine: [] },
  ])
    assert.equal(stated(more), undefined, JSON.stringify(more));
  assert.equal(readProgramRecord([]), undefined);
});

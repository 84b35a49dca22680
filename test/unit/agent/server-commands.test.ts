import assert from "node:assert/strict";
import { test } from "node:test";
import { runServerCommand, type CommandTarget } from "../../../agent/server-commands.js";
import { StemmaError } from "../../../shared/errors.js";
import { runCommand } from "../../../agent/session/run-command.js";

const untouched: CommandTarget = {
  status: () => assert.fail("no status was requested"),
  train: () => assert.fail("no training was requested"),
  activate: () => assert.fail("no activation was requested"),
  trainingCourse: () => assert.fail("no course was asked for"),
  endTraining: () => assert.fail("no training was to be ended"),
  gates: () => assert.fail("no gates were asked for"),
  trial: () => assert.fail("no trial was asked for"),
  conditions: () => assert.fail("no conditions were asked for"),
  keptState: () => assert.fail("no state was asked for"),
  segmentLeaves: () => assert.fail("no segment was asked for"),
  requestCertificate: () => assert.fail("no renewal was requested"),
  takeCertificate: () => assert.fail("no certificate was sent"),
  evaluate: () => assert.fail("no evaluation was requested"),
  setSettings: () => assert.fail("no settings were sent"),
  recentEvents: () => assert.fail("no log was requested"),
  namedRecipes: () => assert.fail("no recipes were asked for"),
  receiveRecipe: () => assert.fail("no recipe was brought"),
};

for (const [what, json] of [
  ["malformed JSON", '{"line": '],
  ["a JSON array", "[]"],
  ["a JSON number", "7"],
] as const)
  test(`a command whose body is ${what} is refused as a wrong usage`, async () => {
    const result = await runCommand((command) => runServerCommand(command, untouched), {
      type: "command",
      name: "train",
      json,
    });
    assert.equal(result.code, "USAGE");
  });

test("a training that the server orders names who ordered it, without what could break a line", async () => {
  const asked: unknown[] = [];
  const target: CommandTarget = { ...untouched, train: (_line, { by }) => void asked.push(by) };
  for (const by of ["ann@office (socket)", `eve\n\u0007${"x".repeat(999)}`, 7, undefined])
    await runServerCommand(
      { type: "command", name: "train", json: JSON.stringify({ line: "cam", by }) },
      target,
    );
  assert.deepEqual(asked, [
    { who: "ann@office (socket)", through: "server" },
    { who: `eve${"x".repeat(253)}`, through: "server" },
    { who: "server", through: "server" },
    { who: "server", through: "server" },
  ]);
});

test("an evaluation takes at most two version ids, and nothing else for them", async () => {
  const [a, b] = ["a", "b"].map((digit) => digit.repeat(64)) as [string, string];
  const asked: unknown[] = [];
  const target: CommandTarget = {
    ...untouched,
    evaluate: (line, request) => {
      asked.push([line, request]);
      return Promise.reject(new StemmaError("DATASET_EMPTY", "none"));
    },
  };
  const codeOf = async (body: object): Promise<string> =>
    (
      await runCommand((command) => runServerCommand(command, target), {
        type: "command",
        name: "evaluate",
        json: JSON.stringify(body),
      })
    ).code;
  for (const versionIds of ["x", [a, b, a], ["../../x"], [7], { 0: a }])
    assert.equal(await codeOf({ line: "cam", versionIds }), "USAGE");
  assert.deepEqual(asked, []);
  assert.equal(await codeOf({ line: "cam", versionIds: [a, b], limit: 3 }), "DATASET_EMPTY");
  assert.equal(await codeOf({ line: "cam", limit: "all" }), "DATASET_EMPTY");
  assert.deepEqual(asked, [
    ["cam", { versionIds: [a, b], limit: 3 }],
    ["cam", { versionIds: [] }],
  ]);
});

test("a trial is begun or ended as the server says in full, and refused otherwise", async () => {
  const asked: unknown[] = [];
  const answer = (body: object) =>
    runCommand(
      (command) =>
        runServerCommand(command, {
          ...untouched,
          trial: (request) => {
            asked.push(request);
            return Promise.resolve(undefined);
          },
        }),
      { type: "command", name: "trial", json: JSON.stringify(body) },
    );
  const id = "ab".repeat(32);
  const of = { line: "cam", rollout: "r", versionId: id };
  const begin = { ...of, before: id, inputs: 10, minutes: 60 };
  for (const body of [{ ...of, end: true }, begin]) assert.deepEqual((await answer(body)).code, "");
  assert.deepEqual(asked, [{ ...of, end: true }, begin]);
  for (const body of [
    of,
    { ...of, end: false },
    { ...begin, inputs: 0 },
    { ...begin, inputs: 10_001 },
    { ...begin, minutes: 1e9 },
    { ...begin, before: "x" },
    { ...begin, versionId: null },
  ])
    assert.equal((await answer(body)).code, "USAGE");
  assert.equal(asked.length, 2);
});

// What crosses HTTP arrives unchanged: typed errors, imports, trainings.
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { errorBodyOf, errorOfAnswer, httpStatusOf } from "../../../../../server/interface/http/error-body.js";
import { decodeImport, encodeImportOptions } from "../../../../../server/interface/http/import-frame.js";
import { maxImportOptionsBytes } from "../../../../../server/interface/api/models/import-schemas.js";
import { statusOfCode } from "../../../../../server/interface/http/status-of-code.js";
import { bearerMatches } from "../../../../../server/interface/http/token.js";
import { createTrainJobs } from "../../../../../server/interface/http/train-jobs.js";
import type { TrainReport } from "../../../../../server/interface/api/models/evaluation-schemas.js";
import type { Caller } from "../../../../../shared/journal/caller.js";
import { isErrorCode, StemmaError } from "../../../../../shared/errors.js";

describe("errors over HTTP", () => {
  it("keep code, message and plain details, and lose causes", () => {
    const error = new StemmaError("MODEL_NOT_FOUND", "There is none.", {
      model: "m",
      ids: ["a", "b"],
      inner: { secret: 1 },
      cause: new Error("inside"),
    });
    const body = errorBodyOf(error);
    assert.deepEqual(body, {
      code: "MODEL_NOT_FOUND",
      message: "There is none.",
      details: { model: "m", ids: ["a", "b"] },
    });
    const back = errorOfAnswer(404, Buffer.from(JSON.stringify(body)), "The server");
    assert.equal(back.code, "MODEL_NOT_FOUND");
    assert.deepEqual(back.details, body.details);
  });
  it("have the status of their kind", () => {
    const statuses = (
      [
        "MODEL_NOT_FOUND",
        "USAGE",
        "ROOT_MISMATCH",
        "TIMED_OUT",
        "TOKEN_INVALID",
        "PLAN_STALE",
        "SIZE_OVER_LIMIT",
        "DISK_FULL",
        "MODEL_RETIRED",
        "FILE_FAILED",
      ] as const
    ).map((code) => httpStatusOf(new StemmaError(code, "x")));
    assert.deepEqual(statuses, [404, 400, 422, 504, 401, 409, 413, 507, 410, 500]);
    assert.equal(httpStatusOf(new TypeError("x")), 500);
  });
  it("blame the server for its own faults alone: every other code says what the client can change", () => {
    const serverFaults = [
      [
        "BACKEND_UNAVAILABLE",
        "CHAIN_CYCLIC",
        "CHAIN_TOO_LONG",
        "CONFINEMENT_FAILED",
        "DATA_MANIFEST_INVALID",
      ],
      ["FACT_INVALID", "FILE_FAILED", "HOME_FORMAT_UNKNOWN", "INTERNAL", "JOURNAL_CORRUPT"],
      ["JOURNAL_FORMAT_UNKNOWN", "MACHINE_INEXACT", "PACK_CORRUPT", "PACK_FORMAT_UNKNOWN", "PATH_TOO_LONG"],
      ["PORT_TAKEN", "REBUILD_FAILED", "RECOVERY_INCOMPLETE", "TENSORS_LEAKED"],
    ].flat();
    const codes = Object.keys(statusOfCode).filter(isErrorCode);
    const errors = codes.map((code) => ({ code, status: httpStatusOf(new StemmaError(code, "x")) }));
    const of = (wanted: number): readonly string[] =>
      errors.filter(({ status }) => status === wanted).map(({ code }) => code);
    assert.deepEqual([...of(500)].sort(), serverFaults);
    const notNow = [
      "AGENT_UNREACHABLE",
      "CLOCK_NOT_TRUSTED",
      "HOME_CHANGED",
      "HOME_TAKEN",
      "INTERRUPTED",
      "JOURNAL_STOPPED",
      "SEARCH_WORKER_LOST",
    ];
    assert.deepEqual([...of(503)].sort(), [
      ...notNow,
      ...["SERVER_UNREACHABLE", "STORE_FAILED", "TIER_UNREACHABLE"],
    ]);
    for (const { code, status } of errors) assert.ok(status >= 400 && status <= 507, code);
  });
  it("disclose nothing of the server's internals if they are not typed", () => {
    assert.equal(JSON.stringify(errorBodyOf(new TypeError("secret path /x"))).includes("secret"), false);
  });
  it("that Stemma did not send become SERVER_UNREACHABLE", () => {
    for (const body of ["<html>", "null", "[]", '{"code":"NO_SUCH","message":"x"}', '{"code":5}'])
      assert.equal(errorOfAnswer(502, Buffer.from(body), "It").code, "SERVER_UNREACHABLE");
  });
});

describe("an import's frame", () => {
  async function* cut(bytes: Uint8Array, size: number): AsyncGenerator<Uint8Array> {
    for (let at = 0; at < bytes.length; at += size) yield bytes.subarray(at, at + size);
  }
  it("is parsed wherever it was split", async () => {
    const options = {
      fleet: "f",
      name: "ä",
      base: "b:1",
      metadata: { a: 1, b: true },
      attachments: [{ name: "x", bytes: Uint8Array.of(0, 255) }],
    };
    const complete = Buffer.concat([encodeImportOptions(options), Buffer.from("the file")]);
    for (const size of [1, 3, 4, 5, 64, 1000]) {
      const { options: decoded, file } = await decodeImport("f", cut(complete, size));
      assert.deepEqual(
        {
          ...decoded,
          attachments: decoded.attachments?.map(({ name, bytes }) => ({
            name,
            bytes: new Uint8Array(bytes),
          })),
        },
        options,
      );
      const rest: Uint8Array[] = [];
      for await (const piece of file) rest.push(piece);
      assert.equal(Buffer.concat(rest).toString(), "the file");
    }
  });
  it("that is short, long, not JSON or of the wrong form is refused before anything is read", async () => {
    const claim = (length: number): Buffer => {
      const head = Buffer.alloc(4);
      head.writeUInt32LE(length >>> 0);
      return head;
    };
    await assert.rejects(decodeImport("f", cut(Buffer.of(1, 2), 1)), { code: "HTTP_REQUEST_INVALID" });
    await assert.rejects(decodeImport("f", cut(claim(maxImportOptionsBytes + 1), 4)), {
      code: "SIZE_OVER_LIMIT",
    });
    await assert.rejects(decodeImport("f", cut(Buffer.concat([claim(100), Buffer.from("{}")]), 4)), {
      code: "HTTP_REQUEST_INVALID",
    });
    for (const json of ["{", "[]", "{}", '{"name":5}', '{"name":""}', '{"name":"m","metadata":{"a":[]}}']) {
      await assert.rejects(
        decodeImport("f", cut(Buffer.concat([claim(json.length), Buffer.from(json)]), 4)),
        { code: "HTTP_REQUEST_INVALID" },
        json,
      );
    }
  });
});

it("a bearer token matches itself and nothing else", () => {
  assert.equal(bearerMatches("Bearer abc", "abc"), true);
  for (const header of [undefined, "", "abc", "bearer abc", "Bearer ab", "Bearer abcd", "Bearer abx"])
    assert.equal(bearerMatches(header, "abc"), false);
});

describe("trainings started over HTTP", () => {
  const caller: Caller = { who: "ann", through: "socket" };
  const request = { fleet: "f", recipe: "r", data: "d", name: "m", caller };
  it("run while they are polled, and end with a report or a typed error", async () => {
    let end: (report: TrainReport) => void = () => undefined;
    const jobs = createTrainJobs(
      () => ({
        train: (_, { onProgress } = {}) => {
          onProgress?.({ state: "running", line: "epoch 1" });
          return new Promise((resolve) => {
            end = resolve;
          });
        },
      }),
      { now: () => 5 },
    );
    const { job } = jobs.start(request);
    assert.deepEqual([jobs.get("f", job).state, jobs.get("f", job).progress?.line], ["running", "epoch 1"]);
    assert.throws(() => jobs.get("other", job), { code: "NOT_FOUND" });
    end({ summary: {}, result: {} } as TrainReport);
    await jobs.close();
    assert.equal(jobs.get("f", job).state, "done");
  });
  it("stop on request, and only few run at a time", async () => {
    const jobs = createTrainJobs(
      () => ({
        train: (_, { signal } = {}) =>
          new Promise((_resolve, reject) => {
            signal?.addEventListener("abort", () => {
              reject(new StemmaError("TRAINING_STOPPED", "stopped"));
            });
          }),
      }),
      { now: () => 5 },
      { running: 2, kept: 3 },
    );
    const { job } = jobs.start(request);
    jobs.start(request);
    assert.throws(() => jobs.start(request), { code: "QUOTA_EXCEEDED" });
    jobs.cancel("f", job);
    await jobs.close();
    assert.equal(jobs.get("f", job).error?.code, "TRAINING_STOPPED");
    assert.equal(jobs.list("f").length, 2);
  });
});

/**
 * The environment record: what Node reports about itself, how it is stored, and which fields decide
 * compatibility.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import { isStemmaError } from "../../../../shared/errors.js";
import {
  captureEnvironment,
  decodeEnvironment,
  encodeEnvironment,
  judgeEnvironment,
} from "../../../../shared/model/environment.js";
import { decodeMetadata, encodeMetadata } from "../../../../shared/model/metadata.js";
import { captureNodeEnvironment } from "../../../../shared/model/node-environment.js";

test("Node's own environment has the fields that MM1 requires, and is decoded from its bytes", () => {
  const environment = captureNodeEnvironment({
    backend: "wasm",
    stemma: "0.1.0",
    engine: "e",
    libraries: { "@tensorflow/tfjs": "4.22.0" },
  });
  for (const field of [
    "backend",
    "stemma",
    "engine",
    "node",
    "v8",
    "os",
    "kernel",
    "arch",
    "cpu",
    "memoryBytes",
    "library.@tensorflow/tfjs",
  ])
    assert.ok((environment[field] ?? "") !== "", field);
  assert.equal(environment["node"], process.version);
  assert.deepEqual(decodeEnvironment(encodeEnvironment(environment)), environment);
});

test("which differences decide depends on the backend", () => {
  const of = (
    backend: string,
    more: Readonly<Record<string, string>> = {},
  ): Readonly<Record<string, string>> => ({
    ...captureEnvironment({ backend, stemma: "1", arch: "x64", libraries: { tensorflow: "2.15" } }),
    ...more,
  });
  const verdict = (backend: string, more: Readonly<Record<string, string>>): string =>
    judgeEnvironment(of(backend), of(backend, more)).verdict;
  assert.equal(verdict("wasm", {}), "same");
  assert.equal(verdict("wasm", { arch: "arm64", "library.tensorflow": "2.16" }), "compatible");
  assert.equal(verdict("wasm", { engine: "other" }), "different");
  assert.equal(verdict("native", { arch: "arm64" }), "different");
  for (const field of ["gpu", "driver", "cuda", "cudnn", "threads", "oneDnn", "referenceTraining", "engine"])
    assert.equal(verdict("native", { [field]: "other" }), "different", field);
  for (const field of ["loadOrder", "backendOrder", "kernel"])
    assert.equal(verdict("native", { [field]: "other" }), "compatible", field);
  assert.equal(verdict("cuda", { gpu: "other" }), "different");
  assert.equal(
    verdict("none", { arch: "arm64", engine: "other" }),
    "compatible",
    "an import was not trained",
  );
  assert.equal(
    verdict("a newer one", { kernel: "6.1" }),
    "different",
    "without knowing the backend, every field may affect the bits",
  );
  assert.equal(judgeEnvironment(of("wasm"), of("native")).verdict, "different");
});

test("bytes that are not an environment or metadata are refused", () => {
  const refused =
    (bytes: string) =>
    (read: (bytes: Uint8Array) => unknown): void => {
      assert.throws(
        () => read(new TextEncoder().encode(bytes)),
        (error) => isStemmaError(error, "CANONICAL_JSON_INVALID"),
        bytes,
      );
    };
  for (const bytes of [
    "null",
    "[]",
    "1",
    '{"fields":{}}',
    '{"fields":{},"format":2}',
    '{"fields":[],"format":1}',
    '{"fields":null,"format":1}',
  ])
    [decodeEnvironment, decodeMetadata].forEach(refused(bytes));
  refused('{"fields":{"a":1},"format":1}')(decodeEnvironment);
  refused('{"fields":{"a":{}},"format":1}')(decodeMetadata);
  const metadata = { odometer: 12_345.5, tyres: "winter", night: true, temperature: -0 };
  assert.deepEqual(decodeMetadata(encodeMetadata(metadata)), metadata);
});

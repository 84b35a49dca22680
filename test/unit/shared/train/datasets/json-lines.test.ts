import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { parseJsonLines } from "../../../../../shared/train/datasets/json-lines.js";
import { isStemmaError } from "../../../../../shared/errors.js";

describe("JSON lines", () => {
  it("gives the values in order and skips blank lines", () => {
    assert.deepEqual(parseJsonLines('{"a": 1}\n\n  \n[2]\r\n3\n', "x"), [{ a: 1 }, [2], 3]);
    assert.deepEqual(parseJsonLines("", "x"), []);
    assert.deepEqual(parseJsonLines('\ufeff{"a": 1}\r\n', "x"), [{ a: 1 }]);
  });

  it("names the wrong line as an editor counts it, blank lines included", () => {
    assert.throws(
      () => parseJsonLines('{"a": 1}\n\n\n{"a": \n', "van.jsonl"),
      (error) =>
        isStemmaError(error, "SAMPLE_INVALID") &&
        error.details["line"] === 4 &&
        error.details["source"] === "van.jsonl",
    );
  });
});

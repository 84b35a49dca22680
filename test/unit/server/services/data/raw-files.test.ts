/** What is said of registered data whose samples are others now. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { changedText } from "../../../../../server/services/data/raw-files.js";

const registered = {
  name: "drives",
  kind: "csv",
  location: "/data/drives.csv",
  parameters: {},
  hash: "a".repeat(64),
  samples: 10,
  files: { count: 1, bytes: 100, sha256: "b".repeat(64) },
};

test("nobody is asked to restore files whose bytes are the registered ones", () => {
  const text = changedText(registered, { hash: "c".repeat(64), files: registered.files });
  assert.match(text, /registered bytes, .* this build's engine reads them otherwise/);
  assert.doesNotMatch(text, /Restore/);
});

test("files with other bytes are to be restored, or registered under a new name", () => {
  const files = { ...registered.files, sha256: "d".repeat(64) };
  const text = changedText(registered, { hash: "c".repeat(64), files });
  assert.match(text, /other bytes/);
  assert.match(text, /Restore the files/);
});

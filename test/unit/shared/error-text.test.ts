/** The text that is logged for a caught value. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { messageOf, messageWithCode } from "../../../shared/error-text.js";
import { StemmaError } from "../../../shared/errors.js";

test("the message of a caught value, with its code where it has one", () => {
  const known = new StemmaError("FILE_MISSING", "There is no such file.");
  assert.equal(messageOf(known), "There is no such file.");
  assert.equal(messageOf("thrown text"), "thrown text");
  assert.equal(messageWithCode(known), "There is no such file. [FILE_MISSING]");
  assert.equal(messageWithCode(new Error("broken")), "broken");
});

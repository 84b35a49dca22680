/** The options of the command line for the log's form and level. */
import assert from "node:assert/strict";
import { it } from "node:test";
import { parseLogForm, requestedLogLevel } from "../../../../shared/cli/log-options.js";
import { isStemmaError } from "../../../../shared/errors.js";

it("reads the log's form and level from the command line", () => {
  assert.equal(parseLogForm("json"), "json");
  assert.throws(
    () => parseLogForm("xml"),
    (error) => isStemmaError(error, "USAGE"),
  );
  assert.equal(requestedLogLevel({ logLevel: "error", verbose: true }), "error");
  assert.equal(requestedLogLevel({ verbose: true }), "debug");
  assert.equal(requestedLogLevel({}), undefined);
  assert.throws(
    () => requestedLogLevel({ logLevel: "loud" }),
    (error) => isStemmaError(error, "USAGE"),
  );
});

/** Commands accept everything that `stemma agent status` prints of a version. */
import assert from "node:assert/strict";
import { it } from "node:test";
import { findVersion } from "../../../../agent/saving/find-version.js";
import { emptyOutbox } from "../../../../agent/outbox/outbox-fold.js";
import { lineStatus } from "../../../../agent/status.js";
import { isStemmaError } from "../../../../shared/errors.js";
import { foldFacts, id, receipt, saved } from "../outbox/facts.js";

it("finds a version by its name, its id, or the first digits of its id", () => {
  const state = foldFacts([saved(1), receipt(1, "recorded"), saved(2), saved(3)], emptyOutbox);
  const { versions } = lineStatus(state, "cam", () => undefined, {
    samples: null,
    standstill: null,
    lastFailure: null,
    trial: null,
  });
  for (const wanted of ["m:1", id(1), id(1).slice(0, 12), id(1).slice(0, 8)])
    assert.equal(findVersion(versions, "cam", wanted).versionId, id(1), wanted);
  for (const [wanted, code] of [
    ["m:2", "MODEL_NOT_FOUND"],
    [id(1).slice(0, 7), "MODEL_NOT_FOUND"],
    // Two versions that the server has not numbered yet have the same name.
    ["m", "MODEL_AMBIGUOUS"],
  ] as const)
    assert.throws(
      () => findVersion(versions, "cam", wanted),
      (error) => isStemmaError(error, code),
      wanted,
    );
});

/** Who caused a fact: how that is told, and which names and ways are taken. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { factCodec } from "../../../../server/storage/repository/state/fact-codec.js";
import {
  byOf,
  callerText,
  describeCaller,
  maxCallerText,
  type Caller,
} from "../../../../shared/journal/caller.js";

describe("who caused a fact", () => {
  it("is told with the way, the role and what a client claims; an older text as it is", () => {
    const described = (by: Caller | string) => describeCaller(by);
    assert.equal(described({ who: "ann@workshop", through: "command" }), "ann@workshop (command)");
    assert.equal(
      described({ who: "token", through: "http", role: "admin", claims: "ann@laptop" }),
      "token, admin (http), as ann@laptop",
    );
    assert.equal(described("ann"), "ann");
    assert.deepEqual(byOf({ by: "ann" }), { by: "ann" });
    assert.deepEqual(byOf({}), {});
  });

  it("came by one of four ways, which a fact keeps; another is refused", () => {
    const read = (through: string) =>
      factCodec.decode(
        Buffer.from(
          JSON.stringify({
            type: "rollout-phase",
            atMs: 1,
            rollout: "r",
            phase: "running",
            because: "",
            by: { who: "ann", through },
          }),
        ),
      );
    for (const through of ["command", "socket", "http", "server"])
      assert.deepEqual((read(through) as { readonly by?: unknown }).by, { who: "ann", through });
    assert.throws(() => read("post"));
  });

  it("is a name without control characters, of bounded length", () => {
    assert.equal(callerText(" a\u0000n\u2028n\n "), "ann");
    assert.equal(callerText("x".repeat(300)), "x".repeat(maxCallerText));
    for (const none of [undefined, "", " \u0007 "]) assert.equal(callerText(none), undefined);
  });
});

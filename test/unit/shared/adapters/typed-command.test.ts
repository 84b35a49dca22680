import assert from "node:assert/strict";
import { test } from "node:test";
import { asTyped } from "../../../../shared/adapters/typed-command.js";

test("texts name the agent's commands as they are typed: where there is no `stemma`, as `stemma-agent`", () => {
  const text = "Start one with `stemma agent run`, at the server `stemma device enroll`.";
  assert.equal(asTyped(text), text);
  assert.equal(
    asTyped(text, "stemma-agent"),
    "Start one with `stemma-agent run`, at the server `stemma device enroll`.",
  );
  const typed = Symbol.for("stemma.command");
  Object.assign(globalThis, { [typed]: "stemma-agent" });
  assert.equal(asTyped("stemma agent status"), "stemma-agent status");
  Reflect.deleteProperty(globalThis, typed);
});

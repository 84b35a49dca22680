/**
 * A claim is never called dead where a living holder could produce the facts: worlds with a living holder are
 * drawn, and from each the facts that another process may see of it. Also the other way: after a power cut,
 * whatever the clock says, the claim on a local disk is dead.
 */
import assert from "node:assert/strict";
import { it } from "node:test";
import fc from "fast-check";
import "../../../helpers/property-seed.js";
import { judgeClaim, leaseMs, type ClaimFacts } from "../../../../shared/files/claim-verdict.js";

const identity = fc.constantFrom("same", "other", "unknown");
const anySocket = fc.constantFrom("answers", "refuses", "absent", "unknown");
const anyProcess = fc.constantFrom("alive", "gone", "replaced", "unknown");
const anyAge = fc.oneof(
  fc.integer({ min: -leaseMs, max: 3 * leaseMs }),
  fc.constantFrom(leaseMs - 1, leaseMs),
);

const anyFacts: fc.Arbitrary<ClaimFacts> = fc.record({
  content: fc.constantFrom("complete", "empty", "damaged"),
  boot: identity,
  machine: identity,
  namespace: identity,
  socket: anySocket,
  process: anyProcess,
  files: fc.constantFrom("local", "shared", "unknown"),
  mount: identity,
  renewed: fc.boolean(),
  ageMs: anyAge,
});

/**
 * Says if a living holder on another machine could produce the facts. It shares no local disk with this one,
 * and its boot is another; machine ids may be equal (copied images), as may everything that is counted per
 * kernel (processes, namespaces, mounts). Nothing here answers on its socket.
 */
function couldLiveElsewhere({ boot, socket, files }: ClaimFacts): boolean {
  return files !== "local" && boot !== "same" && socket !== "answers";
}

/**
 * Says if a living holder on this machine could produce the facts, in this container or another one, whose
 * machine id may differ. Its socket may have been removed, or be out of reach; it refuses only through another
 * mount. A file system of this kernel shows the bytes that were written.
 */
function couldLiveHere({ content, boot, socket, files, mount, namespace, process }: ClaimFacts): boolean {
  if (boot === "other") return false;
  if (socket === "refuses" && (files === "local" || (boot === "same" && mount === "same"))) return false;
  if (boot === "same" && namespace === "same" && (process === "gone" || process === "replaced")) return false;
  return content !== "empty" || files !== "local";
}

it("calls no claim dead that a living holder may have, wherever that holder runs", () => {
  fc.assert(
    fc.property(anyFacts, (facts) => {
      if (couldLiveElsewhere(facts) || couldLiveHere(facts)) assert.notEqual(judgeClaim(facts), "dead");
    }),
    { numRuns: 5000 },
  );
});

it("says that a lease is over only of a holder that had to renew it, or whose disk moved", () => {
  fc.assert(
    fc.property(anyFacts, (facts) => {
      if (judgeClaim(facts) !== "lease-over") return;
      assert.ok(facts.ageMs >= leaseMs);
      assert.ok(facts.renewed || !(couldLiveElsewhere(facts) || couldLiveHere(facts)));
    }),
    { numRuns: 5000 },
  );
});

it("is not locked out by a power cut: a claim of another boot on a local disk is dead, whatever else it says", () => {
  fc.assert(
    fc.property(anyFacts, fc.constantFrom("refuses", "absent", "unknown"), (facts, socket) => {
      const left = { ...facts, socket, files: "local", boot: "other" } as const;
      assert.equal(judgeClaim({ ...left, machine: "same" }), "dead");
      assert.equal(judgeClaim({ ...left, machine: "unknown", socket: "refuses" }), "dead");
      assert.equal(judgeClaim({ ...left, machine: "unknown", content: "empty" }), "dead");
    }),
  );
});

it("forgets a killed process of this boot by its socket, or by its number in the same namespace", () => {
  fc.assert(
    fc.property(anyFacts, fc.constantFrom("gone", "replaced"), (facts, process) => {
      const left = { ...facts, boot: "same" } as const;
      assert.equal(judgeClaim({ ...left, socket: "refuses", files: "local" }), "dead");
      assert.equal(judgeClaim({ ...left, socket: "refuses", mount: "same" }), "dead");
      if (facts.socket !== "answers")
        assert.equal(judgeClaim({ ...left, namespace: "same", process }), "dead");
    }),
  );
});

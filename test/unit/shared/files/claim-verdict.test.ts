/** Each proof that a claim is dead, and beside it the facts that look like it and prove nothing. */
import assert from "node:assert/strict";
import { it } from "node:test";
import {
  judgeClaim,
  leaseMs,
  type ClaimFacts,
  type ClaimVerdict,
} from "../../../../shared/files/claim-verdict.js";

/** A claim of another container on this machine's disk whose socket cannot be seen. */
const unseen: ClaimFacts = {
  content: "complete",
  boot: "same",
  machine: "same",
  namespace: "other",
  socket: "absent",
  process: "gone",
  files: "local",
  mount: "same",
  renewed: false,
  ageMs: 0,
};
const otherMachine = { boot: "other", machine: "other" } as const;

const cases: readonly (readonly [string, Partial<ClaimFacts>, ClaimVerdict])[] = [
  ["a socket answers from another namespace", { socket: "answers" }, "alive"],
  [
    "a socket answers though the claim is damaged",
    { content: "damaged", boot: "unknown", socket: "answers" },
    "alive",
  ],
  ["a socket refuses from another namespace", { socket: "refuses" }, "dead"],
  ["a socket cannot be asked", { socket: "unknown" }, "unknown"],
  ["no socket, and a process of another namespace", {}, "unknown"],
  ["no socket, and an old claim of another namespace", { ageMs: 9 * leaseMs }, "unknown"],
  [
    "a socket refuses through another mount",
    { socket: "refuses", files: "shared", mount: "other" },
    "unknown",
  ],
  ["a socket refuses through the same mount", { socket: "refuses", files: "shared" }, "dead"],
  ["a process lives", { namespace: "same", process: "alive" }, "alive"],
  ["a process is gone", { namespace: "same" }, "dead"],
  ["a process number is used again", { namespace: "same", process: "replaced" }, "dead"],
  [
    "a process number is used, by which process is unknown",
    { namespace: "same", process: "unknown" },
    "unknown",
  ],
  ["another boot on a local disk", { boot: "other" }, "dead"],
  ["another boot, the machine has no id", { boot: "other", machine: "unknown" }, "unknown"],
  ["another boot, no id, a socket refuses", { boot: "other", machine: "unknown", socket: "refuses" }, "dead"],
  ["another boot on shared files", { boot: "other", files: "shared", renewed: true }, "lease-valid"],
  [
    "another boot on files of an unknown kind",
    { boot: "other", files: "unknown", renewed: true },
    "lease-valid",
  ],
  [
    "another boot on shared files, silent",
    { boot: "other", files: "shared", renewed: true, ageMs: leaseMs },
    "lease-over",
  ],
  ["another boot on shared files, no lease", { boot: "other", files: "shared", ageMs: leaseMs }, "unknown"],
  ["another machine's disk", { ...otherMachine, socket: "refuses" }, "lease-valid"],
  ["another machine's disk, a minute later", { ...otherMachine, ageMs: leaseMs }, "lease-over"],
  ["a renewal in the future", { ...otherMachine, renewed: true, ageMs: -leaseMs }, "lease-valid"],
  ["no bytes on a local disk", { content: "empty", boot: "unknown", machine: "unknown" }, "dead"],
  [
    "no bytes on shared files",
    { content: "empty", boot: "unknown", machine: "unknown", files: "shared" },
    "unknown",
  ],
  ["damaged, and no socket", { content: "damaged", boot: "unknown", machine: "unknown" }, "unknown"],
];

for (const [name, facts, verdict] of cases)
  it(`${name}: ${verdict}`, () => assert.equal(judgeClaim({ ...unseen, ...facts }), verdict));

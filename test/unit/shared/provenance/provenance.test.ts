/** Provenance format 1: golden bytes, commitments, redaction, differences, hostile input. */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import fc from "fast-check";
import "../../../helpers/property-seed.js";
import { isStemmaError } from "../../../../shared/errors.js";
import { encodeCanonical } from "../../../../shared/model/canonical-json.js";
import { diffProvenance } from "../../../../shared/provenance/diff-provenance.js";
import {
  decodeProvenance,
  encodeProvenance,
  isProvenance1,
} from "../../../../shared/provenance/encode-provenance.js";
import { makeProvenance } from "../../../../shared/provenance/make-provenance.js";
import {
  decodeOpenings,
  encodeOpenings,
  openProvenance,
  type OpenedProvenance,
  type Openings,
} from "../../../../shared/provenance/openings.js";
import type { CommittedMembers, Provenance } from "../../../../shared/provenance/provenance.js";
import { objectId } from "../../../../shared/tensor/hash.js";
import type { Hash } from "../../../../shared/tensor/tensor.js";

const hash = (byte: string): Hash => byte.repeat(32) as Hash;
const plain: Omit<Provenance, "committed"> = {
  engine: hash("e1"),
  recipe: { name: "battery-soh", version: "1" },
  exactness: "wasm",
  bases: [hash("b1")],
  data: [hash("d1")],
  environment: hash("e2"),
};
const values: CommittedMembers = {
  parameters: { epochs: { value: 10, from: "call" }, learningRate: { value: 0.001, from: "default" } },
  random: {
    generator: "philox4x32-10",
    seed: "18446744073709551615",
    invocation: 3,
    streams: { shuffle: 40 },
  },
  state: { optimizer: { before: hash("0f"), settings: { kind: "adam", beta1: 0.9 } } },
  data: [{ reader: "samples", parameters: { segments: ["1", "2"] }, split: { by: "each sample's own" } }],
  course: { iterations: 40, stoppedEarly: false },
  times: { endedAtMs: 1_767_225_600_000, workMs: 1234 },
  by: { who: "ann@workshop", through: "command" },
  notes: { ticket: "ä-7", urgent: true },
};

/** The openings without some members, as a redaction leaves them. */
function redact(openings: Openings, members: readonly string[]): Openings {
  return Object.fromEntries(Object.entries(openings).filter(([name]) => !members.includes(name)));
}

/** Salts 0x00…, 0x01… in the order in which they are drawn. */
function countingRandom(): { bytes(count: number): Uint8Array } {
  let next = 0;
  return { bytes: (count) => new Uint8Array(count).fill(next++) };
}

interface Vector {
  readonly provenance: string;
  readonly openings: string;
  readonly provenanceId: Hash;
  readonly openingsId: Hash;
  readonly committed: Readonly<Record<string, Hash>>;
}
const vector = JSON.parse(
  readFileSync(
    fileURLToPath(new URL("../../../../../test/vectors/provenance/provenance-1.json", import.meta.url)),
    "utf8",
  ),
) as Vector;

function made(
  changed: Partial<CommittedMembers> = {},
  plainly: Partial<Provenance> = {},
): { readonly provenance: Uint8Array; readonly openings: Uint8Array } {
  return makeProvenance({ ...plain, ...plainly }, { ...values, ...changed }, countingRandom());
}
function opened(...[changed, plainly]: Parameters<typeof made>): OpenedProvenance {
  const { provenance, openings } = made(changed, plainly);
  return openProvenance(provenance, openings);
}
const text = (bytes: Uint8Array): string => Buffer.from(bytes).toString("utf8");

test("provenance and openings have the golden bytes, and are read back", () => {
  const { provenance, openings } = made();
  assert.equal(text(provenance), vector.provenance);
  assert.equal(text(openings), vector.openings);
  assert.equal(objectId("provenance", provenance), vector.provenanceId);
  assert.equal(objectId("openings", openings), vector.openingsId);
  const read = openProvenance(Buffer.from(vector.provenance), Buffer.from(vector.openings));
  assert.deepEqual(read.provenance, { ...plain, committed: vector.committed });
  for (const [name, value] of Object.entries(values))
    assert.deepEqual(read.openings[name]?.value, value, name);
  assert.deepEqual(encodeProvenance(read.provenance), provenance);
  assert.deepEqual(encodeOpenings(read.openings), openings);
});

test("a redacted member leaves nothing of its value, and the provenance unchanged", () => {
  const { provenance, openings } = made();
  const left = encodeOpenings(redact(decodeOpenings(openings), ["by", "notes", "parameters"]));
  for (const secret of ["ann@workshop", "ä-7", "learningRate"])
    assert.ok(
      text(openings).includes(secret) && !text(left).includes(secret) && !text(provenance).includes(secret),
    );
  const read = openProvenance(provenance, left);
  assert.deepEqual(Object.keys(read.openings).sort(), ["course", "data", "random", "state", "times"]);
  assert.deepEqual(openProvenance(provenance, undefined).openings, {});
  // The record kept aside still verifies.
  assert.equal(Object.keys(openProvenance(provenance, openings).openings).length, 8);
});

test("equal values have other commitments under other salts, so that a guess proves nothing", () => {
  const other = makeProvenance(plain, values, { bytes: (count) => new Uint8Array(count).fill(77) });
  for (const [name, commitment] of Object.entries(decodeProvenance(other.provenance).committed))
    assert.notEqual(commitment, vector.committed[name], name);
});

test("an opening that is changed, exchanged or added is refused", () => {
  const { provenance, openings } = made();
  const right = decodeOpenings(openings);
  const by = right["by"]!;
  const wrong = [
    { ...right, by: { ...by, value: { who: "eve", through: "command" } } },
    { ...right, by: { ...by, salt: new Uint8Array(32).fill(9) } },
    { ...right, by: right["notes"]! },
    { ...right, extra: by },
    { ...right, toString: by },
  ];
  for (const openings of wrong)
    assert.throws(() => openProvenance(provenance, encodeOpenings(openings)), { code: "OPENINGS_MISMATCH" });
});

test("a difference has only what differs, with the values of both sides or of the one that has it", () => {
  const nothing = diffProvenance(opened(), opened());
  assert.deepEqual([nothing.differences, nothing.redacted, nothing.sameStory], [{}, [], true]);
  const replayed = diffProvenance(opened(), opened({ times: { endedAtMs: 5, workMs: 1234 } }));
  assert.equal(replayed.sameStory, true);
  assert.deepEqual(replayed.differences, {
    times: { endedAtMs: { original: 1_767_225_600_000, reproduced: 5 } },
  });
  const changed = opened(
    {
      parameters: { epochs: { value: 15, from: "call" }, learningRate: { value: 0.001, from: "default" } },
      state: { optimizer: { before: "initial", settings: { kind: "sgd" } } },
      notes: undefined,
    },
    { engine: hash("e9") },
  );
  const { differences, sameStory } = diffProvenance(opened(), changed, {
    labels: { a: "soh:1", b: "soh:2" },
  });
  assert.equal(sameStory, false);
  assert.deepEqual(differences, {
    engine: { "soh:1": hash("e1"), "soh:2": hash("e9") },
    parameters: { epochs: { value: { "soh:1": 10, "soh:2": 15 } } },
    state: {
      optimizer: {
        before: { "soh:1": hash("0f"), "soh:2": "initial" },
        settings: { kind: { "soh:1": "adam", "soh:2": "sgd" }, beta1: { "soh:1": 0.9 } },
      },
    },
    notes: { "soh:1": { ticket: "ä-7", urgent: true } },
  });
});

test("of two environments, their fields are compared in the place of their hashes", () => {
  const [amd64, aarch64] = [opened(), opened({}, { environment: hash("e3") })];
  assert.deepEqual(diffProvenance(amd64, aarch64).differences, {
    environment: { original: hash("e2"), reproduced: hash("e3") },
  });
  // MERIT's listing 4 (app. C): the same training on two architectures.
  const environments = [
    { arch: "x64", node: "v22.1.0" },
    { arch: "arm64", node: "v22.1.0", gpu: "none" },
  ] as const;
  const { differences, sameStory } = diffProvenance(amd64, aarch64, { environments });
  assert.deepEqual(differences, {
    environment: { arch: { original: "x64", reproduced: "arm64" }, gpu: { reproduced: "none" } },
  });
  assert.equal(sameStory, false);
});

test("a redacted member is equal by its commitment, and else never called equal", () => {
  const whole = opened();
  const without = { ...whole, openings: redact(whole.openings, ["parameters"]) };
  assert.deepEqual(diffProvenance(whole, without).differences, {});
  // The same parameters under another salt: nobody can tell.
  const other = openProvenance(
    ...(Object.values(
      makeProvenance(plain, values, { bytes: (count) => new Uint8Array(count).fill(99) }),
    ) as [Uint8Array, Uint8Array]),
  );
  assert.deepEqual(diffProvenance(whole, other).differences, {});
  const diff = diffProvenance(without, other);
  assert.deepEqual([diff.redacted, diff.sameStory], [["parameters"], false]);
  assert.deepEqual(Object.keys(diff.differences), ["parameters"]);
});

test("hostile bytes end with a typed refusal", () => {
  const { provenance, openings } = made();
  const decoded = JSON.parse(text(provenance)) as Record<string, unknown>;
  const committed = decoded["committed"] as Record<string, unknown>;
  const short = committed["by"] as string;
  const changes: readonly Record<string, unknown>[] = [
    { format: 2 },
    { extra: 1 },
    { engine: undefined },
    { engine: "x" },
    { recipe: undefined },
    { recipe: { name: "a" } },
    { recipe: { bundle: short, name: "a" } },
    { exactness: "perfect" },
    { bases: Array.from({ length: 65 }, () => short) },
    { data: "d" },
    { environment: null },
    { committed: { ...committed, "a b": short } },
    {
      committed: Object.fromEntries(
        Array.from({ length: 33 }, (_, i) => [
          String.fromCharCode(97 + (i % 26), 97 + Math.floor(i / 26)),
          short,
        ]),
      ),
    },
    { committed: { by: `${short.slice(0, 42)}_` } },
  ];
  for (const change of changes)
    assert.throws(
      () => decodeProvenance(encodeCanonical({ ...decoded, ...change } as never)),
      (error) => isStemmaError(error, "PROVENANCE_INVALID"),
      JSON.stringify(change),
    );
  assert.throws(() => decodeProvenance(new Uint8Array(65 * 1024).fill(0x20)), {
    code: "CANONICAL_JSON_INVALID",
  });
  assert.throws(() => decodeOpenings(new Uint8Array(1024 * 1024 + 1)), { code: "CANONICAL_JSON_INVALID" });
  for (const old of ["{}", "null", '{"format":1,"recipe":{}}', "text", "[1]"])
    assert.equal(isProvenance1(Buffer.from(old)), false);
  assert.equal(isProvenance1(provenance), true);
  const position = fc.nat({ max: 10_000 });
  fc.assert(
    fc.property(position, fc.nat({ max: 255 }), fc.boolean(), (at, byte, ofOpenings) => {
      const bytes = new Uint8Array(ofOpenings ? openings : provenance);
      const index = at % bytes.length;
      if (bytes[index] === byte) return;
      bytes[index] = byte;
      try {
        openProvenance(ofOpenings ? provenance : bytes, ofOpenings ? bytes : openings);
      } catch (error) {
        assert.ok(isStemmaError(error), String(error));
        return;
      }
      // Hashes that nothing here opens (bases, data …) may be any; everything else was noticed.
      assert.equal(ofOpenings, false);
    }),
    { numRuns: 300 },
  );
});

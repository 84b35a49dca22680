/** Which claims a server takes, and how long their replays may take. */
import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { test } from "node:test";
import { defaultIngestLimits } from "../../../../../server/fleet/ingest/limits.js";
import type { ClaimOffer } from "../../../../../server/fleet/ingest/uploads/claims.js";
import { ClaimRules } from "../../../../../server/learning/replay/claim-rules.js";
import type { FleetRepository } from "../../../../../server/storage/repository/fleet-repository.js";
import { encodeArchitecture } from "../../../../../shared/model/architecture.js";
import type { Architecture } from "../../../../../shared/model/model.js";
import { makeProvenance } from "../../../../../shared/provenance/make-provenance.js";
import { openProvenance } from "../../../../../shared/provenance/openings.js";
import type { Provenance } from "../../../../../shared/provenance/provenance.js";
import { sha256 } from "../../../../../shared/tensor/hash.js";
import { manualClock } from "../../../../helpers/manual-clock.js";

const engineId = sha256("engine");
const base = sha256("base");
const limits = {
  ...defaultIngestLimits,
  claimMs: 600_000,
  claimMsPerHour: 900_000,
  training: { maxMinutes: 60, requestMinutes: 1440, memoryMiB: 100 },
};
const repository = {
  fleet: "cars",
  engines: () => [{ engineId, isStored: true }],
  recipes: () => [
    { recipe: sha256("approved") },
    { recipe: sha256("revoked"), revoked: { atMs: 1, because: "x" } },
    { recipe: sha256("of another") },
  ],
  select: () => [],
  objects: { has: () => false },
  wasGivenRecipe: (_device: string, recipe: string) => recipe !== sha256("of another"),
} as unknown as FleetRepository;

interface Story {
  readonly plain?: Partial<Provenance>;
  readonly reader?: string;
  readonly workMs?: unknown;
  readonly data?: number;
  readonly epochs?: number;
  readonly samples?: number;
  /** Units of the only layer of its model, which has as many inputs. */
  readonly units?: number;
  /** The bundle that its record names. */
  readonly used?: string;
}

function offer({
  plain = {},
  reader = "battery-simulated",
  workMs = 1000,
  data = 1,
  epochs = 10,
  samples = 100,
  units = 8,
  used,
}: Story = {}): ClaimOffer {
  const made = makeProvenance(
    {
      engine: engineId,
      recipe: { name: "battery-soh", version: "1" },
      exactness: "wasm",
      bases: [base],
      data: [sha256("data")],
      environment: sha256("environment"),
      ...plain,
    },
    {
      parameters: { epochs: { value: epochs, from: "call" }, batchSize: { value: 10, from: "default" } },
      course: { epochs: Math.min(epochs, 10), stoppedEarly: false },
      random: { seed: "1", invocation: 1 },
      data: [{ reader, parameters: {}, samples: { train: samples, validation: 0, heldOut: 0 } }],
      times: { workMs },
    } as unknown as Parameters<typeof makeProvenance>[1],
    { bytes: (count) => randomBytes(count) },
  );
  const uses = {
    data: Array.from({ length: data }, (_, index) => sha256(`${index}`)),
    ...(used === undefined ? {} : { recipe: sha256(used) }),
  };
  const record = { bases: [base], uses, objects: {} } as unknown as ClaimOffer["record"];
  return { device: "van", record, ...made, architecture: encodeArchitecture(dense(units)) };
}

/** A model with one layer. */
function dense(units: number): Architecture {
  const weight = { name: "kernel", dtype: "F32", shape: [units, units], trainable: true } as const;
  const config = { units, activation: "linear", use_bias: false };
  return {
    layers: [
      {
        className: "InputLayer",
        config: { batch_input_shape: [null, units], dtype: "float32" },
        inputs: [],
        weights: [],
      },
      { className: "Dense", config, inputs: [{ layer: 0, output: 0 }], weights: [weight] },
    ],
    outputs: [{ layer: 1, output: 0 }],
  };
}

test("a claim is taken where its replay can give the tensors, and may", async () => {
  const rules = new ClaimRules(limits, manualClock());
  const whyNot = (story: Story): Promise<string | undefined> => rules.whyNot(repository, offer(story));
  assert.equal(await whyNot({}), undefined);
  assert.equal(await whyNot({ reader: "samples", data: 2 }), undefined, "samples that come with it");
  const by = (bundle: string, used = bundle): Story => ({
    plain: { recipe: { bundle: sha256(bundle) } },
    used,
  });
  assert.equal(await whyNot(by("approved")), undefined);
  for (const [story, why] of [
    [{ reader: "samples" }, /stay on the device/],
    [{ plain: { engine: sha256("other") } }, /not approved/],
    [{ plain: { exactness: "native" } }, /depends on the machine/],
    [{ plain: { bases: [sha256("another")] } }, /another base/],
    [by("unknown"), /not approved here/],
    [by("revoked"), /not approved here/],
    [by("approved", "of another"), /its record does not/],
    [by("of another"), /was not given to the device/],
    [{ workMs: 600_001 }, /by its record; 600000 ms are replayed/],
    [{ epochs: 1e9 }, /by its epochs, .*; 600000 ms are replayed/],
    [{ samples: 1e12 }, /by its epochs, .*; 600000 ms are replayed/],
    [{ units: 3000 }, /bytes of memory; 100 MiB are allowed/],
    [{ workMs: -1 }, /does not state/],
    [{ workMs: "soon" }, /does not state/],
  ] as const)
    assert.match((await whyNot(story)) ?? "taken", why);
  const { provenance, openings, ...rest } = offer();
  assert.match(
    (await rules.whyNot(repository, { ...rest, provenance: undefined, openings })) ?? "taken",
    /without a provenance/,
  );
  assert.match(
    (await rules.whyNot(repository, { ...rest, provenance, openings: offer({ workMs: 1 }).openings })) ??
      "taken",
    /not what the provenance commits to/,
  );
});

test("the replays of a device take their share of an hour, and no more", async () => {
  const clock = manualClock();
  const rules = new ClaimRules(limits, clock);
  const whyNot = (): Promise<string | undefined> => rules.whyNot(repository, offer({ workMs: 300_000 }));
  for (let replay = 0; replay < 3; replay++) {
    assert.equal(await whyNot(), undefined);
    rules.charge("cars", "van", 300_000);
  }
  assert.match((await whyNot()) ?? "taken", /share of this hour/);
  assert.equal(await rules.whyNot(repository, { ...offer(), device: "bus" }), undefined, "another device");
  clock.advance(20 * 60_000);
  assert.equal(await whyNot(), undefined, "a third of the hour refills a third");
});

test("what was predicted of a training, or stated, ends the replay", () => {
  const rules = new ClaimRules(limits, manualClock());
  const maxMs = (workMs: number): number => {
    const { provenance, openings } = offer({ workMs });
    return rules.maxMs(openProvenance(provenance ?? new Uint8Array(), openings), { ms: 2000 });
  };
  assert.deepEqual([maxMs(0), maxMs(3000), maxMs(600_000)], [38_000, 42_000, 600_000]);
});

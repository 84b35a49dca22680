// How the server handles coded transfers that it cannot or must not accept, under a manual clock.
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { defaultIngestLimits } from "../../../../../server/fleet/ingest/limits.js";
import { memoryFiles } from "../../../../helpers/files/memory-files.js";
import { codecFormat } from "../../../../../shared/wire/coding/encodings.js";
import { loadDeltaCodec } from "../../../../../shared/delta/load.js";
import type { EncodedTensor } from "../../../../../shared/delta/encoded.js";
import { opaqueModelSource } from "../../../../../shared/save/model-source.js";
import type { TreeSource } from "../../../../../shared/save/save-uses.js";
import type { SavedModel } from "../../../../../shared/save/save-model.js";
import type { Hash, Tensor } from "../../../../../shared/tensor/tensor.js";
import type { Body, Encoding, Want } from "../../../../../shared/wire/messages.js";
import { streamObjectOfBytes } from "../../../../../shared/wire/transfer/stream.js";
import { Simulation } from "../../../../helpers/ingest-simulation.js";
import type { SimulatedDevice } from "../../../../helpers/simulated-device.js";
import { fineTuned, continueTuning, weights } from "../../../../helpers/related-tensors.js";

const codec = await loadDeltaCodec();
const shape = [40, 50];

interface RecordedBase {
  readonly simulation: Simulation;
  readonly device: SimulatedDevice;
  readonly base: SavedModel;
  readonly child: SavedModel;
  readonly tensors: { readonly base: Tensor; readonly child: Tensor };
  readonly deliverAll: () => Promise<void>;
}

/** A device whose base is recorded, and a child that is not announced yet. */
async function recordedBase({ deviceCodes = true, serverCodes = true } = {}): Promise<RecordedBase> {
  const simulation: Simulation = new Simulation({
    seed: 3,
    files: memoryFiles({ now: () => simulation.clock.now() }),
    limits: { coding: serverCodes },
  });
  await simulation.start();
  const device = await simulation.enroll("car", ["a"], deviceCodes);
  const deliverAll = (): Promise<void> => simulation.deliverAll({ quietRounds: 12, settleRounds: 8 });
  const tensors = { base: weights(shape, 1), child: fineTuned(weights(shape, 1), 1e-4, 2) };
  const base = await device.save("a", { body: tensors.base });
  await simulation.connect(device);
  await device.announce();
  // At first, device and store load the kernels from the disk, which takes time.
  while (!device.hasReceipt(base.versionId, "released")) {
    assert.deepEqual(device.refusals, []);
    await deliverAll();
  }
  const child = await device.save("a", { body: tensors.child }, base.versionId);
  return { simulation, device, base, child, tensors, deliverAll };
}

function tensorIdOf(model: SavedModel & { readonly leaves?: unknown }, device: SimulatedDevice): Hash {
  return device.models.find(({ versionId }) => versionId === model.versionId)?.leaves[0]?.tensor as Hash;
}

/** Makes the device send these bytes for every want that allows coding, and raw tensors for others. */
function sendCoded(device: SimulatedDevice, encoding: Encoding, bytes: Uint8Array): void {
  device.streamFor = (want: Want) =>
    want.codec === undefined ? undefined : { objects: [streamObjectOfBytes(bytes)], encodings: [encoding] };
}

// Loads the kernels once, before the first test.
await recordedBase();

describe("coded wants", () => {
  it("state the codec and the versions to code against: the base, and the base's base", async () => {
    const { simulation, device, base, child, deliverAll } = await recordedBase();
    await device.announce();
    await deliverAll();
    const onward = await device.save(
      "a",
      {
        body: continueTuning(fineTuned(weights(shape, 1), 1e-4, 2), weights(shape, 1), {
          share: 0.8,
          stepSize: 1e-5,
          seed: 4,
        }),
      },
      child.versionId,
    );
    await device.announce();
    await deliverAll();
    assert.deepEqual(
      device.wants.map(({ reason, codec: format, references }) => [reason, format, references]),
      [
        ["tensors", codecFormat, undefined],
        ["tensors", codecFormat, [base.versionId]],
        ["tensors", codecFormat, [child.versionId, base.versionId]],
      ],
    );
    assert.deepEqual(device.codedVersions, [base.versionId, child.versionId, onward.versionId]);
    // Stored as received: coded, against the same tensors.
    const stored = simulation.repository.objects.encodingOf(tensorIdOf(onward, device));
    assert.equal(stored?.base, tensorIdOf(child, device));
    assert.equal(stored.previous, tensorIdOf(base, device));
    assert.equal((await simulation.repository.recover(onward.versionId)).verifiedRoot, onward.record.root);
  });

  it("name the base whose optimizer's state came from this device, and store the next against it", async () => {
    const { simulation, device, base, deliverAll } = await recordedBase();
    const moments = (tensor: Tensor): TreeSource => opaqueModelSource([{ name: "slot/v/body", ...tensor }]);
    const first = weights(shape, 9);
    const second = fineTuned(first, 1e-4, 10);
    const trained = await device.save("a", { body: weights(shape, 5) }, base.versionId, {
      optimizer: moments(first),
    });
    await device.announce();
    await deliverAll();
    const next = await device.save("a", { body: weights(shape, 6) }, trained.versionId, {
      optimizer: moments(second),
    });
    await device.announce();
    await deliverAll();
    const last = await device.save("a", { body: weights(shape, 7) }, next.versionId);
    await device.announce();
    await deliverAll();
    const wanted = device.wants.filter(({ reason }) => reason === "tensors");
    assert.deepEqual(
      wanted.slice(-3).map(({ optimizerReference }) => optimizerReference),
      [undefined, trained.versionId, undefined],
    );
    const [of] = moments(second).leaves;
    const stored = simulation.repository.objects.encodingOf(of!.tensor);
    assert.equal(stored?.base, moments(first).leaves[0]?.tensor);
    assert.ok(device.hasReceipt(last.versionId, "released"));
    assert.deepEqual(device.refusals, []);
  });

  it("request and receive raw tensors if this server does not decode", async () => {
    const { device, child, deliverAll } = await recordedBase({ serverCodes: false });
    await device.announce();
    await deliverAll();
    assert.deepEqual(
      device.wants.map(({ codec: format, references }) => [format, references]),
      [
        [undefined, undefined],
        [undefined, undefined],
      ],
    );
    assert.deepEqual(device.codedVersions, []);
    assert.ok(device.hasReceipt(child.versionId, "released"));
  });

  it("keep chains short: after a number of versions one is decoded and stored raw", async () => {
    const { simulation, device, child, tensors, deliverAll } = await recordedBase();
    let [last, lastTensor] = [child.versionId, tensors.child];
    for (let step = 0; step < 11; step++) {
      lastTensor = fineTuned(lastTensor, 1e-4, 20 + step);
      last = (await device.save("a", { body: lastTensor }, last)).versionId;
      await device.announce();
      await deliverAll();
    }
    const depths = device.models.map(
      (model) => simulation.repository.objects.encodingOf(tensorIdOf(model, device))?.depth ?? -1,
    );
    assert.deepEqual(depths, [0, 1, 2, 3, 4, 5, 6, 7, 8, 0, 1, 2, 3]);
    assert.ok(device.hasReceipt(last, "released"));
    assert.deepEqual((await simulation.repository.check()).problems, []);
  });

  it("are sent again for raw tensors if the references of the stream were collected meanwhile", async () => {
    const { simulation, device, base, child, deliverAll } = await recordedBase();
    let held: Body | undefined;
    // The device holds a block back until the lease has expired and the base is retired and collected.
    device.intercept = (body) => {
      if (body.type !== "block" || held !== undefined) return body;
      held = body;
      return undefined;
    };
    await device.announce();
    await deliverAll();
    assert.ok(held !== undefined);
    const { repository } = simulation;
    await repository.retire(base.versionId, "test");
    const leased = await repository.planCollection();
    assert.ok(
      !leased.dead.some(({ id }) => id === tensorIdOf(base, device)),
      "under the want's lease the base stays",
    );
    const before = device.wants.length;
    simulation.clock.advance(defaultIngestLimits.leaseMs + 60_000);
    const plan = await repository.planCollection();
    assert.ok(plan.dead.some(({ id }) => id === tensorIdOf(base, device)));
    await repository.collect(plan);
    device.intercept = (body) => body;
    await device.announce();
    await deliverAll();
    assert.ok(device.hasReceipt(child.versionId, "released"));
    assert.deepEqual(
      device.wants
        .slice(before)
        .map(({ reason, codec: format }) => [reason, format])
        .at(-1),
      ["raw", undefined],
    );
    assert.equal((await repository.recover(child.versionId)).verifiedRoot, child.record.root);
  });

  it("refuse an encoding that was not allowed before any block is sent", async () => {
    const raw = 4 * 2000;
    const foreign = "ab".repeat(32) as Hash;
    const attempts: readonly (readonly [string, (base: Hash) => Encoding, code: string])[] = [
      [
        "longer than raw by more than a thousandth",
        () => ({ code: 2, byteLength: raw + 9 }),
        "SIZE_OVER_LIMIT",
      ],
      [
        "against a tensor of nobody's",
        () => ({ code: 2, byteLength: 100, against: foreign }),
        "TRANSFER_MANIFEST_INVALID",
      ],
      [
        "against a predecessor of nobody's",
        (base) => ({ code: 2, byteLength: 100, against: base, previous: foreign }),
        "TRANSFER_MANIFEST_INVALID",
      ],
      [
        "against a predecessor alone",
        (base) => ({ code: 2, byteLength: 100, previous: base }),
        "TRANSFER_MANIFEST_INVALID",
      ],
      [
        "by a code that does not exist",
        (base) => ({ code: 15, byteLength: 100, against: base }),
        "DELTA_CODE_UNKNOWN",
      ],
      [
        "by a float scheme, which is not exact",
        (base) => ({ code: 17, byteLength: 100, against: base }),
        "DELTA_CODE_UNKNOWN",
      ],
      ["raw in fewer bytes than it has", () => ({ code: 0, byteLength: 100 }), "TRANSFER_MANIFEST_INVALID"],
      [
        "equal, with bytes",
        (base) => ({ code: 1, byteLength: 100, against: base }),
        "TRANSFER_MANIFEST_INVALID",
      ],
    ];
    for (const [what, encoding, code] of attempts) {
      const { simulation, device, base, child, deliverAll } = await recordedBase({ deviceCodes: false });
      const given = encoding(tensorIdOf(base, device));
      sendCoded(device, given, new Uint8Array(given.byteLength));
      let blocks = 0;
      device.intercept = (body) => {
        if (body.type === "block") blocks++;
        return body;
      };
      await device.announce();
      await deliverAll();
      assert.deepEqual(
        device.refusals.map((refusal) => refusal.code),
        [code],
        what,
      );
      assert.equal(blocks, 0, what);
      assert.equal(simulation.repository.get(child.versionId), undefined, what);
    }
  });

  it("refuse a stream that is not a coding of its tensor, and receive the tensor raw when it is announced again", async () => {
    const honest = (setup: RecordedBase): EncodedTensor =>
      codec.encodeTensor(setup.tensors.child, setup.tensors.child.bytes, { base: setup.tensors.base });
    const attempts: readonly (readonly [
      string,
      (setup: RecordedBase) => Pick<EncodedTensor, "code" | "bytes">,
    ])[] = [
      ["cut", (setup) => ({ ...honest(setup), bytes: honest(setup).bytes.subarray(0, 200) })],
      [
        "of another tensor",
        (setup) =>
          codec.encodeTensor(
            setup.tensors.base,
            continueTuning(setup.tensors.child, setup.tensors.base, { share: 1, stepSize: 1e-4, seed: 9 })
              .bytes,
            { base: setup.tensors.base },
          ),
      ],
      ["under another code", (setup) => ({ code: 4, bytes: honest(setup).bytes })],
      ["equal to its base, which it is not", () => ({ code: 1, bytes: new Uint8Array(0) })],
    ];
    for (const [what, make] of attempts) {
      const setup = await recordedBase({ deviceCodes: false });
      const { simulation, device, base, child, deliverAll } = setup;
      const { code, bytes } = make(setup);
      sendCoded(device, { code, byteLength: bytes.length, against: tensorIdOf(base, device) }, bytes);
      await device.announce();
      await deliverAll();
      assert.equal(device.refusals.length, 1, what);
      assert.match(device.refusals[0]?.code ?? "", /^(DELTA_|OBJECT_HASH_MISMATCH)/, what);
      assert.equal(device.refusals[0]?.retry, true, what);
      await device.announce();
      await deliverAll();
      assert.deepEqual([device.wants.at(-1)?.reason, device.wants.at(-1)?.codec], ["raw", undefined], what);
      assert.ok(device.hasReceipt(child.versionId, "released"), what);
      assert.equal(
        (await simulation.repository.recover(child.versionId)).verifiedRoot,
        child.record.root,
        what,
      );
    }
  });

  it("restart a transfer if the device sends another stream than it had started", async () => {
    const setup = await recordedBase({ deviceCodes: false });
    const { simulation, device, base, child, tensors, deliverAll } = setup;
    const { code, bytes } = codec.encodeTensor(tensors.child, tensors.child.bytes, { base: tensors.base });
    sendCoded(device, { code, byteLength: bytes.length, against: tensorIdOf(base, device) }, bytes);
    let sent = 0;
    device.intercept = (body) => (body.type === "block" && ++sent > 1 ? undefined : body);
    await device.announce();
    await deliverAll();
    // The device reconnects, and sends the same tensors raw under the same transfer.
    await simulation.disconnect(device);
    await simulation.settle();
    device.intercept = (body) => body;
    device.streamFor = () => undefined;
    device.forgetSenders();
    await simulation.connect(device);
    await device.announce();
    await deliverAll();
    const [, first, again, restarted] = device.wants;
    assert.equal(again?.transfer, first?.transfer);
    assert.equal(again?.streamBytes, bytes.length);
    assert.notEqual(restarted?.transfer, first?.transfer);
    assert.ok(device.hasReceipt(child.versionId, "released"));
    assert.deepEqual(device.refusals, []);
  });
});

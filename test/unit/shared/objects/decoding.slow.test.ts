/**
 * Tensors decoded in worker threads: the same bytes as on the event loop, no transfer of buffers that others
 * still read, and decoding on the event loop if no thread can start.
 */
import assert from "node:assert/strict";
import { after, describe, it } from "node:test";
import { memoryFiles } from "../../../helpers/files/memory-files.js";
import {
  decodeSteps,
  type DecodingJob,
  type DecodingStep,
} from "../../../../shared/objects/decoding/decode-steps.js";
import {
  DecodingLost,
  DecodingThreads,
  decodingThreads,
} from "../../../../shared/objects/decoding/decoding-threads.js";
import { tensorDecoder } from "../../../../shared/objects/decoding/tensor-decoder.js";
import { openPackStore } from "../../../../shared/objects/pack-store.js";
import type { Hash, Tensor } from "../../../../shared/tensor/tensor.js";
import { isStemmaError } from "../../../../shared/errors.js";
import { codedAgainst, idOfTensor, readBack, writePack } from "../../../helpers/coded-tensors.js";
import { manualClock, seededRandom } from "../../../helpers/manual-clock.js";
import { fineTuned, weights } from "../../../helpers/related-tensors.js";

const first = weights([300, 200], 1);
const second = fineTuned(first, 1e-4, 2);
const third = fineTuned(second, 1e-4, 3);
const fourth = fineTuned(third, 1e-4, 4);

function stepOf(tensor: Tensor, base: Tensor | undefined, lastUseOf: readonly Tensor[] = []): DecodingStep {
  const { id, header, code, bytes } = codedAgainst(tensor, base);
  return {
    id,
    header,
    code,
    byteLength: tensor.bytes.length,
    stored: bytes,
    lastUseOf: lastUseOf.map(idOfTensor),
    ...(base && { base: idOfTensor(base) }),
  };
}

/** The decoding steps of the chain, from the first tensor raw or already decoded. */
function jobOf({ isInMemory = false, wanted = [fourth], canMoveStored = false } = {}): DecodingJob {
  const raw: DecodingStep = {
    id: idOfTensor(first),
    header: first,
    code: 0,
    byteLength: first.bytes.length,
    stored: first.bytes.slice(),
    lastUseOf: [],
  };
  const steps = [
    stepOf(second, first, [first]),
    stepOf(third, second, [second]),
    stepOf(fourth, third, [third]),
  ];
  return {
    steps: isInMemory ? steps : [raw, ...steps],
    references: isInMemory ? new Map([[idOfTensor(first), first]]) : new Map(),
    wanted: new Set(wanted.map(idOfTensor)),
    canMoveStored,
  };
}

/**
 * Counts the turns of the event loop during `work`; decoding on the event loop would allow only one or two.
 */
async function turnsDuring(work: Promise<unknown>): Promise<number> {
  let turns = 0;
  let done = false;
  const ended = work.finally(() => {
    done = true;
  });
  while (!done) {
    turns++;
    await new Promise((resolve) => {
      setImmediate(resolve);
    });
  }
  await ended;
  return turns;
}

describe("decoding in threads", () => {
  it("gives the same bytes as decoding on the event loop, for every requested tensor", async () => {
    const threads = new DecodingThreads(2, 0);
    const decoder = await tensorDecoder();
    for (const isInMemory of [false, true])
      for (const wanted of [[fourth], [second, third, fourth]]) {
        const jobs = Array.from({ length: 6 }, () => jobOf({ isInMemory, wanted }));
        const expected = decodeSteps(decoder, jobs[0] as DecodingJob).bytes;
        assert.deepEqual(
          [...expected.values()],
          wanted.map(({ bytes }) => bytes),
        );
        for (const { bytes, malformed } of await Promise.all(jobs.map((job) => threads.decode(job)))) {
          assert.deepEqual(bytes, expected);
          assert.equal(malformed, undefined);
        }
      }
    assert.equal(threads.running, 2);
    await threads.close();
    assert.equal(threads.running, 0);
  });

  it("transfers only the buffers that it may take, and only complete ones", async () => {
    const threads = new DecodingThreads(1, 0);
    await turnsDuring(threads.decode(bigJob())); // Until the thread has started.
    const kept = jobOf({ isInMemory: true });
    const given = jobOf({ isInMemory: true, canMoveStored: true });
    const around = new Uint8Array((given.steps[1] as DecodingStep).stored.length + 9);
    const piece = around.subarray(4, around.length - 5);
    piece.set((given.steps[1] as DecodingStep).stored);
    const steps = given.steps.map((step, i) => (i === 1 ? { ...step, stored: piece } : step));
    for (const job of [kept, { ...given, steps }])
      assert.deepEqual((await threads.decode(job)).bytes.get(idOfTensor(fourth)), fourth.bytes);
    assert.deepEqual(
      kept.steps.map(({ stored }) => stored.length > 0),
      [true, true, true],
    );
    assert.deepEqual(
      steps.map(({ stored }) => stored.length > 0),
      [false, true, false],
    );
    assert.equal(first.bytes.length, 240_000, "a reference is others' too");
    await threads.close();
  });

  it("gives a thread two jobs at once, so that no more are held twice", async () => {
    const threads = new DecodingThreads(1, 0);
    await turnsDuring(threads.decode(bigJob())); // Until the thread has started.
    const jobs = Array.from({ length: 6 }, () => jobOf({ isInMemory: true, canMoveStored: true }));
    const decoded = jobs.map((job) => threads.decode(job));
    await Promise.resolve();
    const isSent = ({ steps }: DecodingJob): boolean => steps.every(({ stored }) => stored.length === 0);
    assert.deepEqual(jobs.map(isSent), [true, true, false, false, false, false]);
    for (const { bytes } of await Promise.all(decoded))
      assert.deepEqual(bytes.get(idOfTensor(fourth)), fourth.bytes);
    await threads.close();
  });

  it("names the tensor whose bytes no codec wrote, and refuses unknown codes", async () => {
    for (const threads of [new DecodingThreads(1, 0), new DecodingThreads(1)]) {
      await threads.decode(bigJob());
      const good = jobOf({ wanted: [second, fourth] });
      const steps = good.steps.map((step, i) =>
        i === 2 ? { ...step, stored: step.stored.slice(0, 100) } : step,
      );
      const { bytes, malformed } = await threads.decode({ ...good, steps });
      assert.equal(malformed, idOfTensor(third));
      assert.deepEqual([...bytes.keys()], [idOfTensor(second)]);
      await assert.rejects(
        threads.decode({
          ...good,
          steps: good.steps.map((step, i) => (i === 2 ? { ...step, code: 77 } : step)),
        }),
        (error) => isStemmaError(error, "PACK_FORMAT_UNKNOWN") && error.message.includes(idOfTensor(third)),
      );
      await threads.close();
    }
  });

  it("does small work on the event loop, and starts threads only after large work", async () => {
    const threads = new DecodingThreads(1);
    const small = weights([20, 30], 5);
    const coded = stepOf(fineTuned(small, 1e-4, 6), small);
    const job: DecodingJob = {
      steps: [coded],
      references: new Map([[idOfTensor(small), small]]),
      wanted: new Set([coded.id]),
      canMoveStored: false,
    };
    for (let i = 0; i < 20; i++) await threads.decode(job);
    assert.equal(threads.running, 0);
    for (let i = 0; i < 4; i++) await threads.decode(jobOf());
    assert.equal(threads.running, 1);
    await threads.close();
  });

  it("leaves the loop free while a large tensor is decoded", async () => {
    const threads = new DecodingThreads(1);
    assert.ok((await turnsDuring(threads.decode(bigJob()))) > 100);
    await threads.close();
  });

  it("rejects jobs that wait for a thread that ends, and continues without it", async () => {
    const threads = new DecodingThreads(1, 0);
    const waiting = threads.decode(bigJob());
    await new Promise((resolve) => {
      setImmediate(resolve);
    });
    await threads.close();
    await assert.rejects(waiting, DecodingLost);
    assert.deepEqual((await threads.decode(jobOf())).bytes.get(idOfTensor(fourth)), fourth.bytes);
    assert.equal(threads.running, 0);
  });
});

const large = weights([1500, 1000], 9);
const larger = fineTuned(large, 1e-4, 10);
const codedLarger = codedAgainst(larger, large);
/** A job larger than what is decoded on the event loop while a thread starts. */
function bigJob(): DecodingJob {
  const { id, header, code, bytes: stored } = codedLarger;
  return {
    steps: [
      { id, header, code, byteLength: larger.bytes.length, stored, base: idOfTensor(large), lastUseOf: [] },
    ],
    references: new Map([[idOfTensor(large), large]]),
    wanted: new Set([id]),
    canMoveStored: false,
  };
}

describe("a store with large coded tensors", () => {
  after(() => decodingThreads().close());
  const files = memoryFiles();
  const open = (): ReturnType<typeof openPackStore> =>
    openPackStore(files, "/packs", { clock: manualClock(), random: seededRandom("s") });

  it("saves and reads them while the event loop keeps turning", async () => {
    const store = await open();
    await writePack(store, [large]);
    const takingIn = await turnsDuring(writePack(store, [codedLarger]));
    assert.ok(takingIn > 100, `only ${takingIn} turns of the event loop while it was saved`);
    await store.close();
    // A running thread would finish too soon for the loop to turn often on a busy machine.
    await decodingThreads().close();
    const again = await open();
    const givingOut = await turnsDuring(
      readBack(again, larger).then((bytes) => {
        assert.ok(Buffer.compare(bytes, larger.bytes) === 0);
      }),
    );
    assert.ok(givingOut > 100, `only ${givingOut} turns of the event loop while it was read`);
    assert.ok(decodingThreads().running > 0);
    await again.close();
  });

  it("saves many concurrently in their order, and leaves out invalid ones between them", async () => {
    const store = await open();
    const middling = weights([300, 400], 99);
    await writePack(store, [middling]);
    const pack = await store.begin();
    const family = Array.from({ length: 12 }, (_, i) => fineTuned(middling, 1e-4, 100 + i));
    const coded = family.map((tensor) => codedAgainst(tensor, middling));
    // One declares another's id, one is truncated, one is encoded against a tensor that only this pack brings.
    const ofOwn = fineTuned(family[0] as Tensor, 1e-4, 50);
    const wrong: Hash = idOfTensor(weights([3, 3], 1));
    const given = [
      ...coded.slice(0, 4),
      { ...(coded[4] as typeof codedLarger), id: wrong },
      { ...(coded[5] as typeof codedLarger), bytes: (coded[5] as typeof codedLarger).bytes.slice(0, 5000) },
      ...coded.slice(6),
      codedAgainst(ofOwn, family[0]),
    ];
    const results = await Promise.allSettled(given.map((one) => pack.putCoded(one)));
    assert.deepEqual(
      results.map(({ status }, i) => (status === "rejected" ? i : -1)).filter((i) => i >= 0),
      [4, 5],
    );
    assert.deepEqual(
      results
        .filter((result) => result.status === "rejected")
        .map(({ reason }) => (isStemmaError(reason) ? reason.code : "")),
      ["OBJECT_HASH_MISMATCH", "DELTA_MALFORMED"],
    );
    await pack.commit();
    await store.close();
    const again = await open();
    for (const tensor of [...family.filter((_, i) => i !== 4 && i !== 5), ofOwn])
      assert.deepEqual(await readBack(again, tensor), tensor.bytes);
    assert.deepEqual([...again.list()].filter(({ kind }) => kind === "tensor").length, 2 + 1 + 10 + 1);
    await again.close();
  });

  it("decodes a complete chain again when the thread that decodes it ends", async () => {
    const store = await open();
    const last = fineTuned(larger, 1e-4, 11);
    await writePack(store, [codedAgainst(last, larger)]);
    await store.close();
    const again = await open();
    const reading = readBack(again, last);
    let isRead = false;
    const end = (): void => void (isRead = true);
    void reading.then(end, end);
    while (decodingThreads().running === 0 && !isRead)
      await new Promise((resolve) => {
        setImmediate(resolve);
      });
    await decodingThreads().close();
    assert.deepEqual(await reading, last.bytes);
    await again.close();
  });
});

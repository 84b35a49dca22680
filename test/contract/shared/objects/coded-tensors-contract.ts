/** The part of the object store contract about coded tensors. */
import assert from "node:assert/strict";
import { it } from "node:test";
import { encodingCodes } from "../../../../shared/delta/encoded.js";
import {
  maxChainDepth,
  type CodedTensor,
  type ObjectPruner,
  type TensorEncoding,
} from "../../../../shared/objects/object-store.js";
import { keepHighPlanes } from "../../../../shared/objects/high-planes.js";
import { parseScheme } from "../../../../shared/schemes/scheme.js";
import { reduceTensor } from "../../../../shared/schemes/reduce.js";
import { sourceOfTensor, type Hash, type Tensor } from "../../../../shared/tensor/tensor.js";
import { codedAgainst, idOfTensor, memberOf, readBack, writePack } from "../../../helpers/coded-tensors.js";
import { nearlyEqual, noiseTensor, weights } from "../../../helpers/related-tensors.js";
import { code, type Start } from "./object-store-contract.js";

async function reads(store: ObjectPruner, ...tensors: readonly Tensor[]): Promise<void> {
  for (const tensor of tensors)
    for (const verify of [true, false]) assert.deepEqual(await readBack(store, tensor, verify), tensor.bytes);
}
const same = (coded: CodedTensor): CodedTensor => ({ ...coded, bytes: new Uint8Array(coded.bytes) });

export function codedTensors(start: Start): void {
  takesAndGives(start);
  refuses(start);
  recodes(start);
  collects(start);
  planes(start);
}

function takesAndGives(start: Start): void {
  it("stores coded tensors as they are and reads them bit for bit, also after reopening", async () => {
    const { store, reopen } = await start();
    const base = memberOf(1, 0);
    const child = memberOf(1, 1);
    const grandchild = memberOf(1, 2);
    const twin = { ...base, shape: [6, 80] };
    const close = nearlyEqual(base, 0.97, 4);
    const larger = weights([14, 40], 8);
    const half = noiseTensor("BF16", [30, 4], 3);
    const coded = [
      codedAgainst(child, base),
      codedAgainst(grandchild, child, base),
      codedAgainst(memberOf(1, 3), grandchild, undefined, "planes"),
      codedAgainst(close, base),
      codedAgainst(weights([5, 300], 99)),
      codedAgainst(half, undefined, undefined, "planes"),
      codedAgainst(larger, base),
      { ...codedAgainst(twin), code: 0, bytes: twin.bytes },
    ].map(same);
    assert.ok(new Set(coded.map(({ code: number }) => number)).size >= 4);
    await writePack(store, [base]);
    assert.notEqual((await writePack(store, coded)).pack, null);
    const tensors = [
      base,
      child,
      grandchild,
      memberOf(1, 3),
      close,
      weights([5, 300], 99),
      half,
      larger,
      twin,
    ];
    for (const at of [store, await reopen?.()]) {
      if (at === undefined) continue;
      await reads(at, ...tensors);
      for (const given of coded) {
        assert.ok(at.has(given.id));
        assert.deepEqual(same(await at.readCoded(given.id)), given);
        assert.equal(at.stat(given.id)?.storedBytes, given.bytes.length);
        const { depth, ...how }: TensorEncoding = at.encodingOf(given.id) ?? assert.fail();
        assert.deepEqual(how, {
          code: given.code,
          storedBytes: given.bytes.length,
          ...(given.base && { base: given.base }),
          ...(given.previous && { previous: given.previous }),
        });
        assert.equal(depth === 0, given.base === undefined);
      }
      assert.equal(at.encodingOf(coded[2]!.id)?.depth, 3);
      assert.equal(at.encodingOf(idOfTensor(base))?.depth, 0);
      assert.equal(at.encodingOf("0".repeat(64) as Hash), undefined);
      await at.close();
    }
  });

  it("accepts tensors coded against tensors of the same pack, also large ones", async () => {
    const { store, reopen } = await start();
    const shape = [700, 400];
    const chain = [0, 1, 2].map((member) => memberOf(2, member, shape));
    await writePack(store, [
      chain[0]!,
      codedAgainst(chain[1]!, chain[0]),
      codedAgainst(chain[2]!, chain[1], chain[0]),
    ]);
    await reads(store, ...chain);
    await store.close();
    const reopened = await reopen?.();
    if (reopened !== undefined) {
      await reads(reopened, ...chain);
      await reopened.close();
    }
  });

  it("writes a coded tensor once, and skips tensors that it has", async () => {
    const { store } = await start();
    const [base, child] = [memberOf(1, 0), memberOf(1, 1)];
    await writePack(store, [base, child]);
    assert.deepEqual(await writePack(store, [codedAgainst(child, base), codedAgainst(base)]), {
      pack: null,
      bytes: 0,
    });
    assert.equal(store.encodingOf(idOfTensor(child))?.code, encodingCodes.raw);
    await store.close();
  });

  it("keeps no reference that the bytes do not need", async () => {
    const { store } = await start();
    const [base, alone] = [memberOf(1, 0), weights([12, 40], 55)];
    await writePack(store, [
      base,
      { ...codedAgainst(alone), base: idOfTensor(base), previous: idOfTensor(base) },
    ]);
    const { base: kept, depth } = store.encodingOf(idOfTensor(alone)) ?? assert.fail();
    assert.deepEqual({ kept, depth }, { kept: undefined, depth: 0 });
    await store.close();
  });

  it("accepts the same tensors from many concurrent saves, each with other bases", async () => {
    const { store, reopen } = await start();
    const tensors = [0, 1, 2, 3].map((member) => memberOf(3, member));
    await writePack(store, [tensors[0]!]);
    // Half of them code the chain forwards, half backwards: together they would form cycles.
    const forwards = [
      codedAgainst(tensors[1]!, tensors[0]),
      codedAgainst(tensors[2]!, tensors[1]),
      codedAgainst(tensors[3]!, tensors[2]),
    ];
    const backwards = [
      codedAgainst(tensors[3]!, tensors[0]),
      codedAgainst(tensors[2]!, tensors[3]),
      codedAgainst(tensors[1]!, tensors[2]),
    ];
    await Promise.all(
      Array.from({ length: 12 }, (_, i) =>
        writePack(store, i % 3 === 2 ? [tensors[2]!] : i % 2 === 0 ? forwards : backwards),
      ),
    );
    await reads(store, ...tensors);
    await store.close();
    const reopened = await reopen?.();
    if (reopened !== undefined) {
      await reads(reopened, ...tensors);
      await reopened.close();
    }
  });
}

function refuses(start: Start): void {
  it("refuses bytes that do not decode to their id or whose base is missing, and continues the save", async () => {
    const { store } = await start();
    const [base, child, other] = [memberOf(1, 0), memberOf(1, 1), memberOf(1, 5)];
    const good = codedAgainst(child, base);
    await writePack(store, [base, other]);
    const pack = await store.begin();
    const broken = good.bytes.slice();
    broken[broken.length >> 1]! ^= 4;
    const refused: readonly (readonly [CodedTensor, readonly string[]])[] = [
      [{ ...good, id: idOfTensor(memberOf(1, 9)) }, ["OBJECT_HASH_MISMATCH"]],
      [{ ...good, base: idOfTensor(other) }, ["OBJECT_HASH_MISMATCH", "DELTA_MALFORMED"]],
      [{ ...good, bytes: broken }, ["OBJECT_HASH_MISMATCH", "DELTA_MALFORMED"]],
      [{ ...good, bytes: good.bytes.subarray(0, 20) }, ["DELTA_MALFORMED"]],
      [{ ...good, bytes: new Uint8Array(10_000) }, ["TENSOR_SIZE_MISMATCH"]],
      [{ ...good, base: idOfTensor(memberOf(8, 8)) }, ["REFERENCE_MISSING"]],
      [{ id: good.id, header: good.header, code: good.code, bytes: good.bytes }, ["REFERENCE_MISSING"]],
      [{ ...good, code: 15 }, ["PACK_FORMAT_UNKNOWN"]],
      [{ ...good, code: -1 }, ["PACK_FORMAT_UNKNOWN"]],
      [{ ...good, code: 1 }, ["DELTA_MALFORMED"]],
      [{ ...good, header: { dtype: "F32", shape: [2 ** 20, 2 ** 10] } }, ["TENSOR_TOO_LARGE"]],
      [{ ...good, header: { dtype: "F32", shape: [-1] } }, ["SHAPE_INVALID"]],
      [{ ...good, base: good.id }, ["CHAIN_CYCLIC"]],
    ];
    for (const [coded, codes] of refused)
      await assert.rejects(
        () => pack.putCoded(coded),
        (error) => codes.some((one) => code(one as "INTERNAL")(error)) || assert.fail(String(error)),
      );
    await pack.putCoded(good);
    await pack.commit();
    await reads(store, base, child);
    await store.close();
  });

  it("refuses chains longer than the reading limit", async () => {
    const { store, reopen } = await start();
    const chain = Array.from({ length: maxChainDepth + 2 }, () => memberOf(4, 0).bytes.slice()).map(
      (bytes, i): Tensor => {
        bytes[0] = i;
        return { dtype: "F32", shape: [12, 40], bytes };
      },
    );
    await writePack(store, [
      chain[0]!,
      ...chain.slice(1, maxChainDepth + 1).map((tensor, i) => codedAgainst(tensor, chain[i])),
    ]);
    assert.equal(store.encodingOf(idOfTensor(chain[maxChainDepth]!))?.depth, maxChainDepth);
    await assert.rejects(
      () => writePack(store, [codedAgainst(chain[maxChainDepth + 1]!, chain[maxChainDepth])]),
      code("CHAIN_TOO_LONG"),
    );
    // Nor may one in the middle move further from the start: the last chain would be too long.
    const aside = memberOf(4, 1);
    await writePack(store, [aside, codedAgainst(memberOf(4, 2), aside)]);
    await assert.rejects(
      () => writePack(store, [codedAgainst(chain[1]!, memberOf(4, 2))], { recode: true }),
      code("CHAIN_TOO_LONG"),
    );
    await reads(store, ...chain.slice(0, maxChainDepth + 1));
    await store.close();
    const reopened = await reopen?.();
    if (reopened !== undefined) {
      await reads(reopened, ...chain.slice(0, maxChainDepth + 1));
      await reopened.close();
    }
  });
}

function recodes(start: Start): void {
  it("rewrites what the caller asks it to recode, reads the new copy, and the next collection removes the old one", async () => {
    const { store, reopen } = await start();
    const tensors = [0, 1, 2].map((member) => memberOf(1, member));
    const [first, second, third] = tensors as [Tensor, Tensor, Tensor];
    const live = new Set(tensors.map(idOfTensor));
    const at = (member: Tensor): unknown => {
      const { code: number, depth } = store.encodingOf(idOfTensor(member)) ?? assert.fail();
      return [number, depth];
    };
    await writePack(store, tensors);
    const collect = async (): Promise<void> => {
      const plan = store.planCollection(live);
      assert.deepEqual(plan.dead, []);
      assert.ok(plan.bytesAfter < plan.bytesBefore);
      assert.equal((await store.collect(plan, () => live)).freedBytes, plan.bytesBefore - plan.bytesAfter);
      await reads(store, ...tensors);
    };
    await writePack(store, [codedAgainst(second, first), codedAgainst(third, second, first)], {
      recode: true,
    });
    assert.deepEqual(tensors.map(at), [
      [0, 0],
      [2, 1],
      [2, 2],
    ]);
    await reads(store, ...tensors);
    await collect();
    // The reversed chain: the newest tensor raw, the oldest at the end, all in one pack because each needs
    // the others.
    await writePack(store, [third, codedAgainst(second, third), codedAgainst(first, second)], {
      recode: true,
    });
    assert.deepEqual(tensors.map(at), [
      [2, 2],
      [2, 1],
      [0, 0],
    ]);
    await collect();
    await writePack(store, [codedAgainst(first), second], { recode: true });
    assert.deepEqual(tensors.map(at), [
      [2, 0],
      [0, 0],
      [0, 0],
    ]);
    await reads(store, ...tensors);
    await store.close();
    const reopened = await reopen?.();
    if (reopened === undefined) return;
    await reads(reopened, ...tensors);
    assert.equal(reopened.encodingOf(idOfTensor(second))?.code, 0);
    const plan = reopened.planCollection(live);
    await reopened.collect(plan, () => live);
    assert.equal(reopened.planCollection(live).bytesAfter, reopened.planCollection(live).bytesBefore);
    await reads(reopened, ...tensors);
    await reopened.close();
  });

  it("never stores two tensors that depend on each other", async () => {
    const { store } = await start();
    const [first, second, third] = [0, 1, 2].map((member) => memberOf(1, member)) as [Tensor, Tensor, Tensor];
    await writePack(store, [first, codedAgainst(second, first), codedAgainst(third, second)]);
    await assert.rejects(
      () => writePack(store, [codedAgainst(first, third)], { recode: true }),
      code("CHAIN_CYCLIC"),
    );
    await assert.rejects(
      () => writePack(store, [codedAgainst(first, second), second], { recode: true }),
      code("CHAIN_CYCLIC"),
    );
    // Two concurrent recodings, each of which would be valid alone.
    await writePack(store, [first, second, third], { recode: true });
    const both = await Promise.allSettled([
      writePack(store, [codedAgainst(first, second)], { recode: true }),
      writePack(store, [codedAgainst(second, first)], { recode: true }),
    ]);
    assert.deepEqual(both.map(({ status }) => status).sort(), ["fulfilled", "rejected"]);
    await reads(store, first, second, third);
    await store.close();
  });

  it("lets readers finish while everything is recoded and collected", async () => {
    const { store } = await start();
    const shape = [200, 100];
    const tensors = [0, 1, 2, 3].map((member) => memberOf(6, member, shape));
    const live = new Set(tensors.map(idOfTensor));
    await writePack(store, tensors);
    const raw = tensors;
    const forwards = [tensors[0]!, ...[1, 2, 3].map((i) => codedAgainst(tensors[i]!, tensors[i - 1]))];
    const backwards = [tensors[3]!, ...[2, 1, 0].map((i) => codedAgainst(tensors[i]!, tensors[i + 1]))];
    let done = false;
    const reading = Promise.all(
      tensors.map(async (tensor) => {
        let count = 0;
        while (!done || count < 3) {
          assert.deepEqual(await readBack(store, tensor, count++ % 2 === 0), tensor.bytes);
          await new Promise((resolve) => {
            setImmediate(resolve);
          });
        }
        return count;
      }),
    );
    for (let round = 0; round < 9; round++) {
      await writePack(store, [forwards, backwards, raw][round % 3]!, { recode: true });
      await store.collect(store.planCollection(live), () => live);
    }
    done = true;
    assert.ok((await reading).every((count) => count >= 3));
    await store.close();
  });
}

function collects(start: Start): void {
  it("keeps all bases of live tensors, however far, and collects them with the last such tensor", async () => {
    const { store, clock } = await start();
    const [first, second, third, other] = [
      memberOf(1, 0),
      memberOf(1, 1),
      memberOf(1, 2),
      memberOf(7, 0),
    ] as const;
    await writePack(store, [first, codedAgainst(second, first), codedAgainst(third, second, first), other]);
    const live = new Set([idOfTensor(third)]);
    const plan = store.planCollection(live);
    assert.deepEqual(
      plan.dead.map(({ id }) => id),
      [idOfTensor(other)],
    );
    await store.collect(plan, () => live);
    await reads(store, first, second, third);
    // A lease also keeps the bases of its objects.
    const lease = store.lease([idOfTensor(second)], 1000);
    assert.deepEqual(
      store.planCollection(new Set()).dead.map(({ id }) => id),
      [idOfTensor(third)],
    );
    store.release(lease.id);
    clock.advance(1);
    await writePack(store, [third], { recode: true });
    const rest = store.planCollection(live);
    assert.deepEqual(
      new Set(rest.dead.map(({ id }) => id)),
      new Set([idOfTensor(first), idOfTensor(second)]),
    );
    assert.equal((await store.collect(rest, () => live)).freedBytes, rest.bytesBefore - rest.bytesAfter);
    await reads(store, third);
    assert.ok(!store.has(idOfTensor(first)) && !store.has(idOfTensor(second)));
    await store.close();
  });

  it("keeps a dead tensor that became a base between plan and execution", async () => {
    for (let turns = 0; turns < 60; turns++) {
      const { store } = await start();
      const [dead, kept] = [memberOf(1, 0, [8, 60]), memberOf(1, 1, [8, 60])] as const;
      const live = new Set([idOfTensor(kept)]);
      await writePack(store, [dead, kept]);
      const plan = store.planCollection(live);
      assert.deepEqual(
        plan.dead.map(({ id }) => id),
        [idOfTensor(dead)],
      );
      const collecting = store
        .collect(plan, () => live)
        .then(
          () => "collected",
          (error: unknown) => {
            assert.ok(code("PLAN_STALE")(error), String(error));
            return "stale";
          },
        );
      for (let turn = 0; turn < turns; turn++)
        await (turn % 4 === 3
          ? new Promise((resolve) => {
              setImmediate(resolve);
            })
          : Promise.resolve());
      if (turns === 59) await collecting;
      const recoding = await writePack(store, [codedAgainst(kept, dead)], { recode: true }).then(
        () => "recoded",
        (error: unknown) => {
          assert.ok(code("REFERENCE_MISSING")(error), String(error));
          return "missing";
        },
      );
      const outcome = await collecting;
      assert.equal(outcome, recoding === "recoded" ? "stale" : "collected");
      assert.equal(store.has(idOfTensor(dead)), recoding === "recoded");
      await reads(store, kept);
      if (recoding === "recoded") await store.collect(store.planCollection(live), () => live);
      await reads(store, kept);
      await store.close();
    }
  });

  it("pins the bases of an open save", async () => {
    const { store } = await start();
    const [base, child] = [memberOf(1, 0), memberOf(1, 1)];
    await writePack(store, [base]);
    const pack = await store.begin();
    await pack.putCoded(codedAgainst(child, base));
    assert.deepEqual(store.planCollection(new Set()).dead, []);
    await pack.commit();
    assert.deepEqual(store.planCollection(new Set([idOfTensor(child)])).dead, []);
    assert.equal(store.planCollection(new Set()).dead.length, 2);
    await store.close();
  });
}

function planes(start: Start): void {
  it("reads the highest bytes alone; of encodings in planes from a part of the stored bytes", async () => {
    const { store } = await start();
    const shape = [64, 64];
    const [base, child, grandchild, packed] = [0, 1, 2, 3].map((member) => memberOf(5, member, shape)) as [
      Tensor,
      Tensor,
      Tensor,
      Tensor,
    ];
    const half = noiseTensor("F16", [50], 1);
    const bytes = noiseTensor("U8", [50], 2);
    const four = noiseTensor("F4", [4, 4], 3);
    const raw = weights(shape, 77);
    await writePack(store, [
      codedAgainst(base, undefined, undefined, "planes"),
      codedAgainst(child, base, undefined, "planes"),
      codedAgainst(grandchild, child, undefined, "planes"),
      codedAgainst(packed, grandchild),
      codedAgainst(half, undefined, undefined, "planes"),
      bytes,
      four,
      raw,
    ]);
    assert.equal(store.encodingOf(idOfTensor(grandchild))?.depth, 2);
    for (const tensor of [base, child, grandchild, packed, half, bytes, four, raw]) {
      const width = { F16: 2, U8: 1, F4: 0 }[tensor.dtype as string] ?? 4;
      let before = 0;
      for (let planesRead = 1; planesRead <= 4; planesRead++) {
        const { bytes: high, readBytes } = await store.readHighPlanes(idOfTensor(tensor), planesRead);
        assert.deepEqual(
          high,
          keepHighPlanes(tensor.bytes, width, planesRead),
          `${tensor.dtype} ${planesRead}`,
        );
        if (tensor === grandchild && planesRead < 4)
          assert.ok(
            readBytes > before &&
              readBytes <
                [base, child, grandchild].reduce(
                  (sum, one) => sum + (store.stat(idOfTensor(one))?.storedBytes ?? 0),
                  0,
                ),
            `${readBytes} after ${before}`,
          );
        before = readBytes;
      }
    }
    assert.equal((await store.readHighPlanes(idOfTensor(raw), 2)).readBytes, raw.bytes.length);
    await assert.rejects(
      () => store.readHighPlanes(idOfTensor(weights(shape, 1)), 1),
      code("OBJECT_MISSING"),
    );
    await assert.rejects(() => store.readHighPlanes(idOfTensor(raw), 5), code("INTERNAL"));
    await store.close();
  });

  it("reads fixed planes from a part of the stored bytes, and the complete tensor where bytes in IEEE order are requested", async () => {
    const { store, reopen } = await start();
    const kernel = weights([64, 80], 21);
    const vector = weights([3000], 22);
    const child = nearlyEqual(kernel, 0.9, 23);
    await writePack(store, [
      codedAgainst(kernel, undefined, undefined, "fixed"),
      codedAgainst(vector, undefined, undefined, "fixed"),
      codedAgainst(child, kernel, undefined, "planes"),
    ]);
    const id = idOfTensor(kernel);
    const { code: number, storedBytes } = store.encodingOf(id)!;
    assert.equal(number, encodingCodes.fixedPlanes);
    const ask = async (from: typeof store): Promise<void> => {
      let before = 0;
      for (const planesRead of [1, 2, 3]) {
        const { levels, readBytes } = (await from.readFixedPlanes(id, planesRead))!;
        assert.deepEqual(
          [levels.shape, levels.exponents.length, levels.planes.map(({ length }) => length)],
          [kernel.shape, 80, Array.from({ length: planesRead }, () => 64 * 80)],
        );
        assert.ok(readBytes > before && readBytes < storedBytes, `${readBytes} after ${before}`);
        before = readBytes;
        for (const tensor of [kernel, child])
          assert.deepEqual(
            (await from.readHighPlanes(idOfTensor(tensor), planesRead)).bytes,
            keepHighPlanes(tensor.bytes, 4, planesRead),
          );
      }
      assert.equal((await from.readHighPlanes(id, 1)).readBytes, storedBytes);
      for (const other of [vector, child])
        assert.equal(await from.readFixedPlanes(idOfTensor(other), 1), undefined);
    };
    await ask(store);
    for (const tensor of [kernel, vector, child]) await reads(store, tensor);
    await assert.rejects(
      () => store.readFixedPlanes(idOfTensor(weights([2, 2], 1)), 1),
      code("OBJECT_MISSING"),
    );
    await assert.rejects(() => store.readFixedPlanes(id, 4), code("INTERNAL"));
    await store.close();
    const reopened = await reopen?.();
    if (reopened !== undefined) {
      await ask(reopened);
      await reopened.close();
    }
  });

  it("stores a tensor reduced by a float scheme in its compact form", async () => {
    const { store, reopen } = await start();
    const exact = weights([40, 30], 5);
    for (const scheme of ["float16", "quantize-uniform:6"]) {
      const { reduced, code: number, bytes } = reduceTensor(parseScheme(scheme), exact, exact.bytes);
      const tensor = { ...exact, bytes: reduced };
      await writePack(store, [
        { id: idOfTensor(tensor), header: { dtype: exact.dtype, shape: exact.shape }, code: number, bytes },
      ]);
      await reads(store, tensor);
      assert.ok((store.encodingOf(idOfTensor(tensor))?.storedBytes ?? 0) < exact.bytes.length / 1.5);
      // Another tensor may be encoded against it.
      const near = nearlyEqual(tensor, 0.9, 2);
      await writePack(store, [codedAgainst(near, tensor)]);
      await reads(store, near);
      assert.deepEqual(
        (await store.readHighPlanes(idOfTensor(tensor), 2)).bytes,
        keepHighPlanes(reduced, 4, 2),
      );
    }
    const all = new Set([...store.list()].map(({ id }) => id));
    await store.close();
    const reopened = await reopen?.();
    if (reopened !== undefined) {
      for (const id of all) await readBack(reopened, id);
      await reopened.close();
    }
  });

  it("accepts a raw tensor as a coded one", async () => {
    const { store } = await start();
    const tensor = memberOf(1, 0);
    const source = sourceOfTensor(tensor);
    const pack = await store.begin();
    await pack.putCoded({
      id: idOfTensor(tensor),
      header: { dtype: source.dtype, shape: source.shape },
      code: 0,
      bytes: tensor.bytes,
    });
    await pack.commit();
    await reads(store, tensor);
    assert.deepEqual((await store.readCoded(idOfTensor(tensor))).bytes, tensor.bytes);
    await store.close();
  });
}

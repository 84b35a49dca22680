/** The part of the object store contract about coded tensors: what a store accepts, returns and refuses. */
import assert from "node:assert/strict";
import { it } from "node:test";
import { createDeltaCodec } from "../../../../shared/delta/codec.js";
import { derive } from "../../../../shared/delta/derived/derivation.js";
import { encodingCodes } from "../../../../shared/delta/encoded.js";
import { plainKernels } from "../../../../shared/delta/kernels/plain.js";
import { linksTo } from "../../../../shared/delta/links.js";
import {
  maxChainDepth,
  type CodedTensor,
  type TensorEncoding,
} from "../../../../shared/objects/object-store.js";
import { type Hash, type Tensor } from "../../../../shared/tensor/tensor.js";
import {
  assertReadable,
  codedAgainst,
  idOfTensor,
  memberOf,
  writePack,
} from "../../../helpers/coded-tensors.js";
import { nearlyEqual, noiseTensor, weights } from "../../../helpers/related-tensors.js";
import { hasCode, type StartStore } from "../../../helpers/object-stores.js";
import type { ErrorCode } from "../../../../shared/errors.js";

/** The tensor with its bytes in an array of their own, for deepEqual. */
const withPlainBytes = (coded: CodedTensor): CodedTensor => ({
  ...coded,
  bytes: new Uint8Array(coded.bytes),
});

export function codedTensors(start: StartStore): void {
  acceptsAndReturns(start);
  refuses(start);
}

function acceptsAndReturns(start: StartStore): void {
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
    ].map(withPlainBytes);
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
    for (const opened of [store, await reopen?.()]) {
      if (opened === undefined) continue;
      await assertReadable(opened, ...tensors);
      for (const given of coded) {
        assert.ok(opened.has(given.id));
        assert.deepEqual(withPlainBytes(await opened.readCoded(given.id)), given);
        assert.equal(opened.stat(given.id)?.storedBytes, given.bytes.length);
        const { depth, ...how }: TensorEncoding = opened.encodingOf(given.id) ?? assert.fail();
        assert.deepEqual(how, {
          code: given.code,
          storedBytes: given.bytes.length,
          ...(given.base && { base: given.base }),
          ...(given.previous && { previous: given.previous }),
        });
        assert.equal(depth === 0, given.base === undefined);
      }
      assert.equal(opened.encodingOf(coded[2]!.id)?.depth, 3);
      assert.equal(opened.encodingOf(idOfTensor(base))?.depth, 0);
      assert.equal(opened.encodingOf("0".repeat(64) as Hash), undefined);
      await opened.close();
    }
  });

  it("keeps all eight tensors that one is coded against", async () => {
    const { store } = await start();
    const models = Array.from({ length: 8 }, (_, i) => memberOf(20 + i, 0));
    const average = derive(models, { averaged: 8, dtype: "F32" });
    const links = linksTo(models.map(idOfTensor));
    const { code, bytes } = createDeltaCodec(plainKernels()).encodeTensor(
      average,
      average.bytes,
      linksTo(models),
    );
    assert.equal(code, encodingCodes.derived);
    const coded = { id: idOfTensor(average), header: average, code, bytes };
    await writePack(store, models);
    await writePack(store, [{ ...coded, ...links }]);
    await assertReadable(store, average);
    const { others = [], depth } = store.encodingOf(coded.id) ?? assert.fail();
    assert.deepEqual([others.length, depth], [6, 1]);
    const plan = await store.planCollection(new Set([coded.id]));
    await store.collect(plan, () => new Set([coded.id]));
    for (const model of models) assert.ok(store.has(idOfTensor(model)));
    await assertReadable(store, average, ...models);
    await assert.rejects(
      writePack(store, [{ ...coded, ...linksTo(models.slice(1).map(idOfTensor)) }], { recode: true }),
      hasCode("REFERENCE_MISSING"),
    );
    await store.close();
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
    await assertReadable(store, ...chain);
    await store.close();
    const reopened = await reopen?.();
    if (reopened !== undefined) {
      await assertReadable(reopened, ...chain);
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
    await assertReadable(store, ...tensors);
    await store.close();
    const reopened = await reopen?.();
    if (reopened !== undefined) {
      await assertReadable(reopened, ...tensors);
      await reopened.close();
    }
  });
}

function refuses(start: StartStore): void {
  it("refuses bytes that do not decode to their id or whose base is missing, and continues the save", async () => {
    const { store } = await start();
    const [base, child, other] = [memberOf(1, 0), memberOf(1, 1), memberOf(1, 5)];
    const good = codedAgainst(child, base);
    await writePack(store, [base, other]);
    const pack = await store.begin();
    const broken = good.bytes.slice();
    broken[broken.length >> 1]! ^= 4;
    const refused: readonly (readonly [CodedTensor, readonly ErrorCode[]])[] = [
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
        (error) => codes.some((one) => hasCode(one)(error)) || assert.fail(String(error)),
      );
    await pack.putCoded(good);
    await pack.commit();
    await assertReadable(store, base, child);
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
      hasCode("CHAIN_TOO_LONG"),
    );
    // Nor may one in the middle move further from the start: the last chain would be too long.
    const aside = memberOf(4, 1);
    await writePack(store, [aside, codedAgainst(memberOf(4, 2), aside)]);
    await assert.rejects(
      () => writePack(store, [codedAgainst(chain[1]!, memberOf(4, 2))], { recode: true }),
      hasCode("CHAIN_TOO_LONG"),
    );
    await assertReadable(store, ...chain.slice(0, maxChainDepth + 1));
    await store.close();
    const reopened = await reopen?.();
    if (reopened !== undefined) {
      await assertReadable(reopened, ...chain.slice(0, maxChainDepth + 1));
      await reopened.close();
    }
  });
}

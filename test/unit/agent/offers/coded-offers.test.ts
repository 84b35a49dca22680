/**
 * Offered models that arrive coded are decoded against versions on the device; what cannot be decoded is
 * fetched raw, and gives the same model.
 */
import { anyRelease } from "../../../helpers/any-release.js";
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { Download, Downloads, DownloadTerms } from "../../../../agent/offers/downloads.js";
import { Offers } from "../../../../agent/offers/offers.js";
import { Outbox } from "../../../../agent/outbox/outbox.js";
import { silentLog } from "../../../../shared/adapters/node-ports.js";
import type { EncodedTensor } from "../../../../shared/delta/encoded.js";
import { loadDeltaCodec } from "../../../../shared/delta/load.js";
import { memoryFiles } from "../../../helpers/files/memory-files.js";
import { tensorOfSource, type Hash } from "../../../../shared/tensor/tensor.js";
import { generateKey } from "../../../../shared/trust/keys.js";
import type { Encoding, ObjectRef, Offer } from "../../../../shared/wire/messages.js";
import { testProfile } from "../../../helpers/agent-fixtures.js";
import { freeDisk } from "../../../helpers/free-disk.js";
import { manualClock, seededRandom } from "../../../helpers/manual-clock.js";
import { OfferedModels } from "../../../helpers/offered-models.js";
import { fineTuned, weights } from "../../../helpers/related-tensors.js";

const codec = await loadDeltaCodec();
const clock = manualClock();
const random = seededRandom("offers");
const key = generateKey(random);
const tensors = { base: weights([40, 50], 1), child: fineTuned(weights([40, 50], 1), 1e-4, 2) };

/** The stream that the fake server sends for a fetch with these terms; undefined: raw. */
type Send = (
  terms: DownloadTerms,
  base: Hash,
) => { readonly encoding: Encoding; readonly bytes: Uint8Array } | undefined;
function honest(base: Hash): { readonly encoding: Encoding; readonly bytes: Uint8Array } {
  const { code, bytes }: EncodedTensor = codec.encodeTensor(tensors.child, tensors.child.bytes, {
    base: tensors.base,
  });
  return { encoding: { code, byteLength: bytes.length, against: base }, bytes };
}

/** A device that has a base, and the server's offer of a child of it. */
async function offersOfChild(
  send: Send,
  coding: "auto" | "never" = "auto",
): Promise<{
  readonly outbox: Outbox;
  readonly offers: Offers;
  readonly base: Offer;
  readonly child: Offer;
  readonly fetched: (DownloadTerms | undefined)[];
  readonly childTensor: Hash;
  readonly ended: () => number;
}> {
  const models = new OfferedModels(key, clock);
  const base = await models.offer("base", tensors.base);
  const child = await models.offer("child", tensors.child, base.saved);
  const outbox = await Outbox.open({
    files: memoryFiles(),
    folder: "/outbox",
    clock,
    random,
    log: silentLog(),
  });
  const fetched: (DownloadTerms | undefined)[] = [];
  let ended = 0;
  const fetch = async (
    _: Hash,
    refs: readonly ObjectRef[],
    __: number,
    terms?: DownloadTerms,
  ): Promise<Download> => {
    fetched.push(terms);
    const [ref] = refs as [ObjectRef];
    const coded = terms === undefined ? undefined : send(terms, base.tensor);
    const bytes = coded?.bytes ?? (await tensorOfSource(models.server.openTensor(ref.id))).bytes;
    return {
      refs,
      encodings: coded === undefined ? [] : [coded.encoding],
      read: (offset, length) => Promise.resolve(bytes.slice(offset, offset + length)),
      done: () => {
        ended++;
        return Promise.resolve();
      },
    };
  };
  const offers = new Offers({
    releases: anyRelease,
    enrolment: models.enrolment,
    outbox,
    downloads: { fetch } as unknown as Downloads,
    profile: testProfile({ "link.coding": coding }),
    clock,
    log: silentLog(),
    resumesOptimizer: () => false,
    diskUse: () => Promise.resolve(freeDisk),
  });
  return {
    outbox,
    offers,
    base: base.offer,
    child: child.offer,
    fetched,
    childTensor: child.tensor,
    ended: () => ended,
  };
}

describe("offers that come coded", () => {
  it("are fetched with terms that name the local versions, and give the same model", async () => {
    const { outbox, offers, base, child, fetched, childTensor, ended } = await offersOfChild((terms, id) =>
      terms.references.length > 0 ? honest(id) : undefined,
    );
    await offers.take(base);
    await offers.take(child);
    // The first model has nothing to be coded against, and coding it alone saves too little on such a link.
    assert.deepEqual(
      fetched.map((terms) => terms?.references),
      [undefined, [base.versionId]],
    );
    assert.deepEqual(
      (await tensorOfSource(outbox.objects.openTensor(childTensor))).bytes,
      tensors.child.bytes,
    );
    assert.equal(
      outbox.objects.encodingOf(childTensor)?.depth,
      0,
      "decoded: it keeps no other version's tensors on this disk",
    );
    assert.equal(ended(), 2);
    await outbox.close();
  });

  it("are fetched raw if the profile forbids coding", async () => {
    const { outbox, offers, base, fetched } = await offersOfChild(() => {
      throw new Error("nobody asked for it");
    }, "never");
    await offers.take(base);
    assert.deepEqual(fetched, [undefined]);
    await outbox.close();
  });

  it("are fetched again raw if they do not decode, or decode to another tensor", async () => {
    const attempts: readonly (readonly [string, Send])[] = [
      [
        "cut",
        (_, id) => ({
          encoding: { ...honest(id).encoding, byteLength: 100 },
          bytes: honest(id).bytes.subarray(0, 100),
        }),
      ],
      [
        "of another tensor",
        (_, id) => {
          const other = codec.encodeTensor(tensors.base, fineTuned(tensors.base, 1e-3, 9).bytes, {
            base: tensors.base,
          });
          return {
            encoding: { code: other.code, byteLength: other.bytes.length, against: id },
            bytes: other.bytes,
          };
        },
      ],
      ["against what is not here", () => ({ ...honest("ab".repeat(32) as Hash) })],
      [
        "by a code that does not exist",
        (_, id) => ({ ...honest(id), encoding: { ...honest(id).encoding, code: 31 } }),
      ],
    ];
    for (const [what, send] of attempts) {
      const { outbox, offers, base, child, fetched, childTensor } = await offersOfChild((terms, id) =>
        terms.references.length > 0 ? send(terms, id) : undefined,
      );
      await offers.take(base);
      await offers.take(child);
      assert.deepEqual(
        fetched.slice(1).map((terms) => terms?.references),
        [[base.versionId], undefined],
        what,
      );
      assert.deepEqual(
        (await tensorOfSource(outbox.objects.openTensor(childTensor))).bytes,
        tensors.child.bytes,
        what,
      );
      assert.ok(outbox.entry(child.versionId) !== undefined, what);
      await outbox.close();
    }
  });
});

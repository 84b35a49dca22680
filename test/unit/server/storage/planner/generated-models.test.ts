/**
 * Generated repositories with parameters match their options: seeded, frozen where asked, and as far apart as
 * their deltas are long.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import { loadDeltaCodec } from "../../../../../shared/delta/load.js";
import { generateModels } from "../../../../helpers/generated-models.js";
import {
  generateVersions,
  sdLike,
  trainingProgress,
  type RepositoryOptions,
} from "../../../../helpers/generated-repository.js";
import { seededNumbers } from "../../../../helpers/manual-clock.js";

const options: RepositoryOptions = {
  ...sdLike,
  versions: 3,
  checkpoints: 3,
  snapshotBytes: 400_000,
  deltaBits: 19,
  rateBits: 1,
  frozenShare: 0.7,
};

test("the same options give the same bytes, another seed others", () => {
  const bytesOf = (seed: number): readonly string[] =>
    [...generateModels({ ...options, seed })].flatMap(({ tensors }) =>
      tensors.map(({ bytes }) => Buffer.from(bytes).toString("base64")),
    );
  assert.deepEqual(bytesOf(5), bytesOf(5));
  assert.notDeepEqual(bytesOf(5), bytesOf(6));
});

test("a delta takes about the bits that the options ask for, a frozen tensor none", async () => {
  const codec = await loadDeltaCodec();
  const models = new Map([...generateModels(options)].map((model) => [model.id, model]));
  let compared = 0;
  let frozen = 0;
  for (const [v, { lives, checkpoints, decay, parent }] of generateVersions(
    options,
    seededNumbers(options.seed),
  ).entries()) {
    if (parent < 0) continue;
    const way = trainingProgress(checkpoints, decay);
    for (let checkpoint = 0; checkpoint < checkpoints; checkpoint++) {
      const own = models.get(`v${v}/c${checkpoint}`)!;
      const base = models.get(own.base!)!;
      for (const [t, { isContinued, isFrozen, stride }] of lives.entries()) {
        const tensor = own.tensors[t]!;
        const from = base.tensors[t]!;
        if (isFrozen && isContinued) {
          assert.ok(Buffer.from(tensor.bytes).equals(from.bytes));
          frozen++;
        }
        if (isFrozen || !isContinued || tensor.bytes.length < 20_000) continue;
        const asked =
          options.deltaBits +
          stride +
          Math.log2(way[checkpoint]! - (checkpoint === 0 ? 0 : way[checkpoint - 1]!));
        const bits =
          (32 * codec.encodeTensor(tensor, tensor.bytes, { base: from }).bytes.length) / tensor.bytes.length;
        assert.ok(Math.abs(bits - asked) < 0.7, `${own.id} tensor ${t}: ${bits} bits, ${asked} asked`);
        compared++;
      }
    }
  }
  assert.ok(compared > 10 && frozen > 10, `${compared} ${frozen}`);
});

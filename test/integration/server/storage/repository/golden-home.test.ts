/**
 * Homes as earlier releases wrote them are opened, checked, recovered bit for bit, and worked on. No test
 * writes them again: if one can no longer be opened, users' homes cannot be opened either.
 */
import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { readdirSync } from "node:fs";
import { cp, readFile } from "node:fs/promises";
import { join, resolve } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { nodeHomePorts } from "../../../../../server/storage/repository/node-home.js";
import { openHome } from "../../../../../server/storage/repository/home.js";
import { openRepository } from "../../../../../server/storage/repository/open-repository.js";
import { restoreBackup } from "../../../../../server/storage/repository/backup/restore.js";
import type {
  DeviceSummary,
  FleetMoment,
} from "../../../../../server/storage/repository/answers/device-answers.js";
import type { VersionSummary } from "../../../../../server/storage/repository/answers/version-answers.js";
import type { JournalHead } from "../../../../../shared/journal/journal.js";
import { tensorOfSource, type Hash } from "../../../../../shared/tensor/tensor.js";
import { modelOf, sameTensors, temporaryFolder, tensorsOf } from "./harness.js";

const vectors = join(resolve(fileURLToPath(import.meta.url), "../../../../../../.."), "test/vectors");
interface Expected {
  readonly publicKey: string;
  readonly head: JournalHead;
  readonly versions: readonly VersionSummary[];
  readonly tensors: Readonly<
    Record<
      Hash,
      readonly {
        readonly path: string;
        readonly name: string;
        readonly dtype: string;
        readonly shape: readonly number[];
        readonly sha256: string;
      }[]
    >
  >;
  readonly devices: readonly DeviceSummary[];
  readonly datasets: unknown;
  readonly moments: readonly { readonly atMs: number; readonly answer: readonly FleetMoment[] }[];
}

const backups = readdirSync(vectors).filter((name) => /^backup-\d+$/.test(name));
const homes = readdirSync(vectors).filter((name) => /^home-\d+$/.test(name));

test("there are a golden home and a golden backup", () => {
  assert.ok(homes.includes("home-1") && backups.includes("backup-1"));
});

for (const name of homes) {
  test(`${name} opens, is complete, and recovers every model`, async (context) => {
    const path = join(await temporaryFolder(context), name);
    await cp(join(vectors, name), path, { recursive: true });
    const expected = JSON.parse(await readFile(join(vectors, `${name}.expected.json`), "utf8")) as Expected;
    const home = await openHome(path, nodeHomePorts());
    assert.equal(home.signer.publicKey, expected.publicKey);
    const repository = await openRepository(home, "golden");
    assert.deepEqual(repository.journal.head(), expected.head);
    const versions = repository.versions({ includeRetired: true });
    // That release did not report holds and retirement times; they are computed from the same facts.
    assert.deepEqual(
      JSON.parse(
        JSON.stringify(versions.map(({ hold: _hold, retired: _retired, ...asShownThen }) => asShownThen)),
      ),
      expected.versions,
    );
    for (const { held, hold, state, retired } of versions)
      assert.deepEqual([held, state === "retired"], [hold !== undefined, retired !== undefined]);
    // Nor generations: in its journal each enrolment counts one. Nor callers; and what was assigned, when a
    // device was revoked, and when it was last heard of, was not listed.
    for (const {
      device,
      generation,
      enrolledBy,
      enrolledAtMs,
      lines,
      state,
      revoked,
      seenAtMs,
      assigned = {},
    } of repository.devices()) {
      assert.deepEqual([generation, enrolledBy, revoked?.by], [1, undefined, undefined]);
      assert.equal(revoked !== undefined, state === "revoked");
      assert.ok(seenAtMs !== undefined && seenAtMs >= enrolledAtMs, device);
      for (const line of lines)
        assert.equal(assigned[line]?.versionId, repository.assignment(device, line), line);
    }
    assert.deepEqual(
      JSON.parse(
        JSON.stringify(
          repository
            .devices()
            .map(
              ({
                generation: _generation,
                assigned: _assigned,
                revoked: _revoked,
                seenAtMs: _seenAtMs,
                ...asShownThen
              }) => asShownThen,
            ),
        ),
      ),
      expected.devices,
    );
    assert.deepEqual(repository.datasets(), expected.datasets);
    for (const { atMs, answer } of expected.moments) assert.deepEqual(repository.asOf(atMs), answer);
    assert.deepEqual((await repository.check()).problems, []);
    for (const { versionId, state } of expected.versions) {
      if (state === "retired") {
        await assert.rejects(repository.recover(versionId), { code: "MODEL_RETIRED" });
        continue;
      }
      const model = await repository.recover(versionId);
      const actual = await Promise.all(
        model.sources.map(async (source, leaf) => ({
          path: model.leaves[leaf]!.path,
          name: model.names.leaves[leaf]!,
          dtype: source.dtype,
          shape: source.shape,
          sha256: createHash("sha256")
            .update((await tensorOfSource(source)).bytes)
            .digest("hex"),
        })),
      );
      assert.deepEqual(actual, expected.tensors[versionId]);
    }
    // Work continues in this home.
    const tensors = tensorsOf("after");
    const { summary } = await repository.save(modelOf(tensors), { name: "soh" });
    assert.equal(
      summary.version,
      Math.max(
        ...expected.versions.filter((version) => version.name === "soh").map(({ version }) => version),
      ) + 1,
    );
    assert.ok(await sameTensors(repository, summary.versionId, tensors));
    await repository.close();
    await home.close();
  });
}

for (const name of backups) {
  test(`${name} restores to the home that it was made from`, async (context) => {
    const expected = JSON.parse(
      await readFile(join(vectors, `${name.replace("backup", "home")}.expected.json`), "utf8"),
    ) as Expected;
    const path = join(await temporaryFolder(context), "restored");
    const [report] = await restoreBackup(join(vectors, name), path, nodeHomePorts());
    assert.equal(report?.position, expected.head.length);
    const home = await openHome(path, nodeHomePorts());
    assert.equal(home.signer.publicKey, expected.publicKey);
    const repository = await openRepository(home, "golden");
    assert.deepEqual(repository.restores().at(-1)?.position, expected.head.length);
    for (const { versionId, state } of expected.versions) {
      assert.equal(repository.get(versionId)?.state, state);
      if (state !== "retired")
        assert.equal(
          (await repository.recover(versionId)).verifiedRoot,
          repository.get(versionId)?.record.root,
        );
    }
    await repository.close();
    await home.close();
  });
}

/** An import without a base names the versions with the same tensors, as a hint that is not recorded. */
import assert from "node:assert/strict";
import { Readable } from "node:stream";
import { describe, it } from "node:test";
import type { ImportOptions } from "../../../../server/interface/api/server-operations.js";
import type { ImportReport } from "../../../../server/interface/api/models/import-schemas.js";
import { likelyBasesText } from "../../../../server/cli/import-text.js";
import { importModel } from "../../../../server/operations/models/import-model.js";
import { likelyBases } from "../../../../server/operations/models/likely-bases.js";
import { openFleets } from "../../../../server/services/context/open-fleets.js";
import type { FleetRepository } from "../../../../server/storage/repository/fleet-repository.js";
import { openHome } from "../../../../server/storage/repository/home.js";
import { StemmaError } from "../../../../shared/errors.js";
import { opaqueModelSource } from "../../../../shared/save/model-source.js";
import { tinyImport } from "../../../helpers/agent-fixtures.js";
import { memoryFiles } from "../../../helpers/files/memory-files.js";
import { safetensors } from "../../../helpers/foreign-models.js";
import { manualClock, seededRandom } from "../../../helpers/manual-clock.js";

const fleet = "f";
type Options = Partial<ImportOptions> & { readonly name: string };

async function openWorld() {
  const home = await openHome("/home", {
    files: memoryFiles(),
    clock: manualClock(),
    random: seededRandom(1),
  });
  const fleets = openFleets(home);
  const send = async (bytes: Uint8Array, options: Options): Promise<ImportReport> =>
    importModel(
      { home, fleets, version: "1" },
      { byteLength: bytes.length, chunks: Readable.from([bytes]) },
      { fleet, ...options },
    );
  return {
    send,
    opaque: (fill: number, options: Options) => send(opaqueFile(fill), options),
    described: async (seed: string, options: Options, units?: number) => {
      const { bytes, architecture } = await tinyImport(seed, units);
      return await send(bytes, { architecture, ...options });
    },
    repository: () => fleets.get(fleet),
  };
}

/** Two tensors of eight bytes. */
function opaqueFile(fill: number, names = ["a", "b"], shape: readonly number[] = [2], dtype = "F32"): Buffer {
  return safetensors(names.map((name) => [name, dtype, shape, Buffer.alloc(8, fill)]));
}

const namesIn = ({ likelyBases = [] }: ImportReport): readonly string[] =>
  likelyBases.map(({ name, version }) => `${name}:${version}`);

describe("an import without a base", () => {
  for (const kind of ["opaque", "described"] as const)
    it(`names the newest versions with its tensors, those of its name first (${kind})`, async () => {
      const world = await openWorld();
      const save = async (at: number, options: Options): Promise<readonly string[]> =>
        namesIn(await (kind === "opaque" ? world.opaque(at, options) : world.described(`${at}`, options)));
      assert.deepEqual(await save(1, { name: "soh" }), []);
      assert.deepEqual(await save(2, { name: "soh" }), ["soh:1"]);
      assert.deepEqual(await save(3, { name: "other" }), ["soh:2", "soh:1"]);
      assert.deepEqual(await save(4, { name: "soh", dryRun: true }), ["soh:2", "soh:1", "other:1"]);
      assert.deepEqual(await save(4, { name: "more" }), ["other:1", "soh:2", "soh:1"]);
      assert.deepEqual(await save(5, { name: "more" }), ["more:1", "other:1", "soh:2"]);
      const repository = await world.repository();
      await repository.retire(repository.resolve("soh:2").versionId, "wrong");
      assert.deepEqual(await save(6, { name: "soh", dryRun: true }), ["soh:1", "more:2", "more:1"]);
      // Nothing of it is recorded.
      assert.deepEqual(
        repository.versions().flatMap(({ record }) => record.bases),
        [],
      );
    });

  it("names none where anything but the values differs, or the base is named", async () => {
    const { send, opaque, described } = await openWorld();
    await opaque(1, { name: "soh" });
    await described("1", { name: "soh" });
    for (const [file, why] of [
      [opaqueFile(1, ["a", "c"]), "a name"],
      [opaqueFile(1, ["a"]), "a tensor less"],
      [opaqueFile(1, ["a", "b"], [1, 2]), "a shape"],
      [opaqueFile(1, ["a", "b"], [2], "I32"), "a type"],
    ] as const)
      assert.equal("likelyBases" in (await send(file, { name: "soh", dryRun: true })), false, why);
    assert.deepEqual(namesIn(await described("1", { name: "soh", dryRun: true }, 4)), []);
    assert.deepEqual(namesIn(await opaque(2, { name: "soh", base: "soh:1", dryRun: true })), []);
    assert.deepEqual(namesIn(await opaque(2, { name: "soh", onto: "soh:1", dryRun: true })), []);
    assert.deepEqual(namesIn(await opaque(2, { name: "soh", furtherBases: ["soh:1"] })), []);
    assert.deepEqual(namesIn(await opaque(2, { name: "soh", dryRun: true })), ["soh:3", "soh:1"]);
  });

  it("reads few trees, and is not stopped by one that cannot be read", async () => {
    const { opaque, repository } = await openWorld();
    for (let i = 1; i <= 30; i++) await opaque(i, { name: "soh" });
    const real = await repository();
    let reads = 0;
    const watched: Pick<FleetRepository, "list" | "leaves"> = {
      list: (query) => real.list(query),
      leaves: () => {
        reads++;
        return Promise.reject(new StemmaError("OBJECT_MISSING", "gone"));
      },
    };
    const model = opaqueModelSource(
      ["a", "b"].map((name) => ({ name, dtype: "F32", shape: [2], bytes: new Uint8Array(8) })),
    );
    assert.deepEqual(await likelyBases(watched, model, "new"), []);
    assert.equal(reads, 20);
    assert.equal((await likelyBases(real, model, "new")).length, 3);
  });
});

describe("the sentence about likely bases", () => {
  const base = { versionId: "ab".repeat(32), version: 3 } as never as Readonly<{
    versionId: never;
    version: 3;
  }>;
  const textOf = (...names: readonly string[]): string | undefined =>
    likelyBasesText({ likelyBases: names.map((name) => ({ ...base, name })) } as unknown as ImportReport);

  it("says what to type, and by its id where a shell would read the name as something else", () => {
    assert.equal(textOf(), undefined);
    assert.equal(
      textOf("soh", "cam"),
      "it has the same tensors as soh:3, cam:3, whatever their values. If it was trained from one of them, import it " +
        "with --base soh:3.",
    );
    assert.ok(
      likelyBasesText({
        likelyBases: [{ ...base, name: "soh" }],
        summary: { ...base, name: "new" },
      } as unknown as ImportReport)?.endsWith(
        "import it again with --base soh:3, and retire this version: stemma model rm new:3",
      ),
    );
    for (const name of ["a; rm -rf ~", "$(x)", "-x", "a'b", "é"])
      assert.ok(textOf(name)?.endsWith(`trained from it, import it with --base ${"ab".repeat(32)}.`), name);
  });
});

/** What a device takes of a server that brings it recipes of the fleet's own, and what the owner's releases allow. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { OwnRecipes } from "../../../../agent/recipes/own-recipes.js";
import { ReleaseTrust } from "../../../../agent/releases/release-trust.js";
import { silentLog } from "../../../../shared/adapters/node-ports.js";
import { writeDurably } from "../../../../shared/files/durable-write.js";
import { bundleId, maxBundleBytes } from "../../../../shared/train/own-recipes/bundle.js";
import { partsOf } from "../../../../shared/trust/releases/release-set.js";
import { revokeRelease } from "../../../../shared/trust/releases/release-change.js";
import { recipeParts } from "../../../../shared/wire/recipe-commands.js";
import { memoryFiles } from "../../../helpers/files/memory-files.js";
import { noiseBytes } from "../../../helpers/noise-bytes.js";
import { fleetOwner, startMs, validity } from "../../../helpers/release-owner.js";
import { parseConfig } from "../../../../agent/settings/config.js";

const home = "/device";
const name = "mine";
const large = noiseBytes(maxBundleBytes, 3);
const config = parseConfig({ format: 1, lines: { a: { recipe: `own:${name}` }, b: {} } }, "test");

async function open(
  files = memoryFiles(),
  requireRecipe: (recipe: string) => Promise<void> = () => Promise.resolve(),
): Promise<OwnRecipes> {
  const log = silentLog();
  return await OwnRecipes.open({
    files,
    home,
    config,
    log,
    releases: { requireRecipe },
    onChange: () => undefined,
  });
}
async function bring(own: OwnRecipes, bundle: Uint8Array, version = 1): Promise<void> {
  for (const part of recipeParts(bundle, { name, version })) await own.receive(part);
}

describe("recipes that a server brings", () => {
  it("are kept over a restart, also one that deflates to nothing smaller", async () => {
    const files = memoryFiles();
    assert.ok(recipeParts(large, { name, version: 1 }).length > 30);
    await bring(await open(files), large);
    const own = await open(files);
    const { bundle, recipe } = await own.require(name);
    assert.deepEqual([Buffer.from(bundle).equals(large), recipe], [true, bundleId(large)]);
    await assert.rejects(own.require(name, bundleId(Buffer.from("before"))), { code: "RECIPE_NOT_APPROVED" });
  });

  it("are refused where no line names them, where parts are missing, and with other bytes than their hash", async () => {
    const files = memoryFiles();
    const own = await open(files);
    const [first, second, ...rest] = recipeParts(large, { name, version: 1 });
    assert.ok(first !== undefined && second !== undefined);
    await assert.rejects(own.receive({ ...first, name: "others" }), { code: "RECIPE_UNKNOWN" });
    await assert.rejects(own.receive({ ...first, name: "../x" }), { code: "ENVELOPE_MALFORMED" });
    await assert.rejects(own.receive({ ...first, parts: 2 ** 20 }), { code: "ENVELOPE_MALFORMED" });
    await assert.rejects(own.receive(second), { code: "ENVELOPE_MALFORMED" });
    await own.receive(first);
    await assert.rejects(own.receive(rest[0]), { code: "ENVELOPE_MALFORMED" });
    const [small] = recipeParts(Buffer.from("export const recipe = 1;"), { name, version: 1 });
    const recipe = bundleId(large);
    await assert.rejects(own.receive({ ...small, recipe }), { code: "RECIPE_INVALID" });
    // A few kilobytes that inflate to more than a bundle may have.
    const [bomb] = recipeParts(new Uint8Array(maxBundleBytes + 1), { name, version: 1 });
    await assert.rejects(own.receive(bomb), { code: "ENVELOPE_MALFORMED" });
    assert.deepEqual((await own.named()).recipes, [{ name, recipe: null }]);
    assert.deepEqual(await files.list(`${home}/recipes`), []);
  });

  it("are taken back, and forgotten where no line names them any more", async () => {
    const files = memoryFiles();
    const own = await open(files);
    await bring(own, large);
    await own.receive({ name, recipe: null, because: "wrong" });
    await assert.rejects(own.require(name), { code: "RECIPE_NOT_APPROVED" });
    await bring(own, large);
    await writeDurably(files, `${home}/recipes/old.json`, new Uint8Array(3));
    await open(files);
    assert.deepEqual(await files.list(`${home}/recipes`), [`${name}.json`]);
  });

  it("are run by a device that demands releases only where the fleet's owner signed them", async () => {
    const owner = fleetOwner();
    const trust = await ReleaseTrust.open({
      files: memoryFiles(),
      home,
      pin: { root: owner.roots[0] ?? "", policy: "required" },
      policy: "required",
      nowMs: () => startMs,
      onEvent: () => undefined,
    });
    const own = await open(memoryFiles(), (recipe) => trust.requireRecipe(recipe as never));
    const bundle = Buffer.from("export const recipe = 1;");
    const release = `recipe:${name}:1`;
    const manifest = {
      kind: "stemma-recipe-manifest",
      format: 1,
      fleet: "plant",
      name,
      version: 1,
      recipe: bundleId(bundle),
      bytes: bundle.length,
    } as const;
    assert.throws(() => owner.release("mine:1", manifest), { code: "RELEASE_MISMATCH" });
    for (const part of partsOf(owner.set())) await trust.receive(part);
    await assert.rejects(bring(own, bundle), { code: "RELEASE_REQUIRED" });
    for (const part of partsOf(owner.release(release, manifest))) await trust.receive(part);
    await bring(own, bundle);
    assert.equal(await own.whyNot(name), undefined);
    await assert.rejects(bring(own, Buffer.from("another")), { code: "RELEASE_REQUIRED" });
    assert.equal((await own.require(name)).recipe, bundleId(bundle), "what was here before stays");
    const revoked = revokeRelease("plant", owner.published(), { name: release, because: "bad" }, validity);
    for (const part of partsOf(owner.publish(revoked))) await trust.receive(part);
    await assert.rejects(own.require(name), { code: "RELEASE_REVOKED" });
  });
});

/** A device names a recipe of the fleet's own as what trained its model: only one that it was given counts. */
import assert from "node:assert/strict";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import type { ServerOperations } from "../../../../../server/interface/api/server-operations.js";
import { bundleId } from "../../../../../shared/train/own-recipes/bundle.js";
import { scaffold } from "../../../../../shared/train/own-recipes/scaffold.js";
import type { SavedModel } from "../../../../../shared/save/save-model.js";
import type { Hash } from "../../../../../shared/tensor/tensor.js";
import type { Body, BodyOf } from "../../../../../shared/wire/messages.js";
import { RecipeCollector, readRecipeCommand } from "../../../../../shared/wire/recipe-commands.js";
import { noiseBytes } from "../../../../helpers/noise-bytes.js";
import { streamOf } from "../../../../helpers/object-stores.js";
import { ScriptedDevice } from "../../../../helpers/scripted-device.js";
import { smallProvenance } from "../../../../helpers/small-provenance.js";
import { startTestServer, testFleet as fleet, type TestServer } from "../../../../helpers/test-server.js";

const bundle = Buffer.from(scaffold);
const recipe = bundleId(bundle);
const isCommand = (message: Body): message is BodyOf<"command"> => message.type === "command";

describe("a recipe that a device names", () => {
  let server: TestServer;
  let operations: ServerOperations;
  let device: ScriptedDevice;
  let sequence = 0;
  before(async () => {
    server = await startTestServer();
    ({ operations } = server.handle);
    await writeFile(join(server.home, "server.json"), '{"format":1,"recipes":{"confinement":"interpreter"}}');
    device = await ScriptedDevice.connect(await server.enroll("liar"));
    await device.birth();
  });
  after(async () => {
    await server.remove();
    await device.close();
  });

  /** The device answers the next command of this name. */
  async function answer(name: string, from: number, result: unknown, code = ""): Promise<unknown> {
    const isMeant = (message: Body): message is BodyOf<"command"> =>
      isCommand(message) && message.name === name;
    const command = await device.find(isMeant, from);
    const { correlation } = device.envelopes.find(({ body }) => body === command) ?? { correlation: "" };
    await device.send({ type: "commandResult", code, json: JSON.stringify(result) }, correlation);
    return JSON.parse(command.json);
  }
  const approve = (): ReturnType<ServerOperations["approveRecipe"]> =>
    operations.approveRecipe({ fleet, bundle: bundle.toString("base64") });
  const save = async (used: Hash, withBundle = false): Promise<SavedModel> =>
    await device.save(
      { w: noiseBytes(400, ++sequence) },
      {
        sequence,
        uses: { recipe: withBundle ? { source: streamOf(bundle) } : { id: used } },
        provenance: smallProvenance(sequence),
      },
    );
  async function isRefused(saved: SavedModel): Promise<void> {
    const refusal = device.refusal(saved.versionId);
    await device.announce(saved);
    assert.equal((await refusal).code, "RECIPE_NOT_APPROVED");
    await assert.rejects(operations.model({ fleet, model: saved.versionId }), { code: "MODEL_NOT_FOUND" });
  }

  it("is refused where nobody approved it, and its bundle is not taken", async () => {
    await isRefused(await save(recipe, true));
    await isRefused(await save("d".repeat(64) as Hash));
    assert.ok(!device.messages.some(({ type }) => type === "want"));
    sequence = 0;
  });

  it("is refused where it was approved, and not given to this device", async () => {
    const from = device.messages.length;
    await approve();
    assert.deepEqual(await answer("recipes", from, { recipes: [], confinement: "" }), {});
    await isRefused(await save(recipe));
    sequence = 0;
  });

  it("is taken once the device was given it, and only the tensors are wanted", async () => {
    let from = device.messages.length;
    await device.sendBirth();
    await answer("recipes", from, { recipes: [{ name: "my-recipe", recipe: null }], confinement: "" });
    from = device.messages.findIndex(isCommand) + 1;
    const brought = await device.find(
      (message): message is BodyOf<"command"> => isCommand(message) && message.name === "recipe",
    );
    const part = readRecipeCommand(JSON.parse(brought.json));
    assert.ok(part.recipe !== null);
    assert.deepEqual(Buffer.from(new RecipeCollector().take(part) ?? []), bundle);
    const saved = await save(recipe);
    await device.announce(saved);
    const want = await device.want(saved.versionId, "tensors");
    assert.deepEqual([want.tensorIndices.length, want.objects], [1, []]);
    await device.receipt("stored", saved.versionId);
    assert.equal((await operations.recipes({ fleet }))[0]?.devices, 1);
  });

  it("whose approval was revoked meanwhile is not replayed: a claim is sent with its tensors", async () => {
    await operations.revokeRecipe({ fleet, recipe, because: "wrong" });
    await operations.collect({ fleet, ...(await operations.planCollection({ fleet })) });
    const saved = await save(recipe);
    await device.announce(saved, { claim: true });
    assert.equal((await device.want(saved.versionId, "tensors")).tensorIndices.length, 1);
    await device.receipt("stored", saved.versionId);
    const { claim, replayed } = await operations.model({ fleet, model: saved.versionId });
    assert.deepEqual([claim, replayed], [undefined, undefined]);
    assert.deepEqual((await operations.check({ fleet })).problems, []);
  });
});

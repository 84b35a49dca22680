/** The paper's Queries 2 and 3 on a repository made for them: plans, versions, weights, what is there already. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { repositorySource } from "../../../../../server/learning/query/repository-source.js";
import { runQuery } from "../../../../../server/learning/query/run-query.js";
import { saveDerived } from "../../../../../server/operations/models/save-derived.js";
import type { OperationsContext } from "../../../../../server/services/context/operations-context.js";
import { isStemmaError } from "../../../../../shared/errors.js";
import { decodeMetadata } from "../../../../../shared/model/metadata.js";
import { decodeOwnerMap } from "../../../../../shared/model/owner-map.js";
import { modelSourceOfTensors } from "../../../../../shared/save/model-source.js";
import {
  inputLayer,
  networkOfLayers,
  plainLayer,
  type PlainNetwork,
} from "../../../../helpers/derived-networks.js";
import { memoryHome, modelOf, openRepository, tensorsOf } from "../../storage/repository/harness.js";

const query2 = `slice m2 from m1
where m1.name like "alexnet-origi%"
mutate m2.input = m1["conv1"] and
       m2.output = m1["fc7"]`;
const query3 = `construct m2 from m1
where m1.name like "alexnet-avgv1%" and
      m1["conv*($1)"].next has POOL("AVG")
mutate m1["conv*($1)"].insert = RELU("relu$1")`;

/** conv1, a pool, conv2, and another pool or none; two full layers. */
function alexNet(pooling: string, hasSecond: boolean): PlainNetwork {
  const input = inputLayer("data", 8, 8, 1);
  const conv = { filters: 2, kernel_size: 3, padding: "same" };
  const conv1 = plainLayer("conv1", "Conv2D", conv, input);
  const pool1 = plainLayer("pool1", pooling, { pool_size: 2 }, conv1);
  const conv2 = plainLayer("conv2", "Conv2D", conv, pool1);
  const pool2 = plainLayer("pool2", pooling, { pool_size: 2 }, conv2);
  const flat = plainLayer("flat", "Flatten", {}, hasSecond ? pool2 : conv2);
  const fc7 = plainLayer("fc7", "Dense", { units: 4 }, flat);
  const fc8 = plainLayer("fc8", "Dense", { units: 3 }, fc7);
  const nodes = [input, conv1, pool1, conv2, ...(hasSecond ? [pool2] : []), flat, fc7, fc8];
  return networkOfLayers(nodes, [fc8]);
}

test("the paper's Queries 2 and 3 are planned, saved, and found again", async () => {
  const { home } = await memoryHome();
  const repository = await openRepository(home, "fleet-a");
  const save = async (name: string, { architecture, names, tensors }: PlainNetwork) => {
    const leaves = architecture.layers.flatMap(({ weights }, layer) =>
      weights.map((weight) => `${names[layer] ?? ""}/${weight.name}`),
    );
    const source = modelSourceOfTensors(architecture, tensors, { leaves, layers: names, frozenLayers: [1] });
    return (await repository.save(source, { name })).summary;
  };
  const origin = await save("alexnet-origin", alexNet("MaxPooling2D", true));
  const average = await save("alexnet-avgv1", alexNet("AveragePooling2D", false));
  await repository.save(modelOf(tensorsOf("m")), { name: "opaque" });
  const context = {
    home,
    fleets: { get: () => Promise.resolve(repository) },
  } as unknown as OperationsContext;
  const plan = async (query: string) => {
    const source = await repositorySource(repository, { now: () => 0 });
    return (await runQuery(source, query, { offset: 0, limit: 100 })).derived ?? [];
  };
  const made = async (query: string, seed?: string) =>
    await saveDerived(context, { fleet: "fleet-a", query, ...(seed === undefined ? {} : { seed }) });

  const [slice] = await plan(query2);
  assert.deepEqual(slice?.network?.removed, ["fc8"]);
  const before = repository.versions().length;
  const [sliced] = (await made(query2)).derived;
  const version = repository.resolve(sliced?.saved?.versionId ?? "");
  assert.deepEqual([version.name, version.record.bases], ["alexnet-origin-m2", [origin.versionId]]);
  const stored = await repository.leaves(version.versionId);
  const whole = (await repository.leaves(origin.versionId)).map(({ tensor }) => tensor);
  assert.deepEqual(
    stored.map(({ tensor }) => tensor),
    whole.slice(0, -2),
  );
  const ownerMap = await repository.objects.read("owner-map", version.record.objects.ownerMap);
  assert.deepEqual(decodeOwnerMap(ownerMap, stored.length).owners, [origin.versionId]);

  const [appended, refused] = await plan(query3);
  assert.deepEqual(appended?.network?.added, ["relu1"]);
  assert.equal(refused, undefined);
  const all = await plan(
    'construct b from a mutate a["conv1"].insert = RELU("r") and a["fc7"].delete = FULL("fc8")',
  );
  assert.match(all.find(({ source }) => source.name === "opaque")?.reason ?? "", /network is not known/);
  assert.equal(all.filter(({ network }) => network !== undefined).length, 3);

  const wider = `construct m2 from m1 where m1.name = "alexnet-avgv1"
mutate m1["fc7"].insert = DENSE("fc_new", units=5) and m1["fc8"].insert = SOFTMAX("prob")`;
  const [drawn] = await plan(wider);
  assert.deepEqual(drawn?.network?.reshaped, ["fc8"]);
  const first = await made(wider, "7");
  assert.deepEqual([first.seed, first.derived[0]?.saved?.isNew], ["7", true]);
  const again = await made(wider, "7");
  assert.deepEqual(again.derived[0]?.saved, { ...first.derived[0]?.saved, isNew: false });
  const other = await made(wider);
  assert.notEqual(other.seed, "7");
  const contentOf = (answer: typeof first) =>
    repository.resolve(answer.derived[0]?.saved?.versionId ?? "").record.contentId;
  assert.notEqual(contentOf(other), contentOf(first));
  assert.equal(repository.versions().length, before + 3);
  const child = repository.resolve(first.derived[0]?.saved?.versionId ?? "");
  assert.deepEqual(child.record.bases, [average.versionId]);
  const metadata = await repository.objects.read(
    "metadata",
    child.record.objects.metadata ?? average.versionId,
  );
  assert.deepEqual(decodeMetadata(metadata), {
    "commit.message": wider,
    "commit.seed": "7",
    inheritable: false,
  });

  const both =
    'construct pair from m where m.name like "alexnet-a%1" or m.name = "alexnet-origin" mutate m["fc8"].insert = ELU("e")';
  const stop = new AbortController();
  const stopping = { ...context, live: { fleet: () => Promise.resolve({ saved: () => stop.abort() }) } };
  const input = { fleet: "fleet-a", query: both };
  await assert.rejects(saveDerived(stopping as unknown as OperationsContext, input, stop.signal));
  assert.deepEqual(
    (await made(both)).derived.map(({ name, saved }) => [name, saved?.isNew]),
    [
      ["alexnet-origin-pair", false],
      ["alexnet-avgv1-pair", true],
    ],
  );
  await assert.rejects(made("select m"), (error) => isStemmaError(error, "QUERY_INVALID"));
  await assert.rejects(made(wider, "x"), (error) => isStemmaError(error, "RECIPE_PARAMETERS_INVALID"));
  await repository.close();
});

/** Queries on a real repository: the paper's Query 1, what cannot be known, changes between queries, damage. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { repositorySource } from "../../../../../server/learning/query/repository-source.js";
import { runQuery, type QueryResult } from "../../../../../server/learning/query/run-query.js";
import type { FleetRepository } from "../../../../../server/storage/repository/fleet-repository.js";
import { weightSlots } from "../../../../../shared/model/architecture.js";
import type { Architecture, LeafLayer } from "../../../../../shared/model/model.js";
import { defaultNames } from "../../../../../shared/model/model-json-export.js";
import { modelSourceOfTensors } from "../../../../../shared/save/model-source.js";
import type { Hash } from "../../../../../shared/tensor/tensor.js";
import {
  memoryHome,
  modelOf,
  openRepository,
  seededBytes,
  tensorsOf,
} from "../../storage/repository/harness.js";

const input = { className: "InputLayer", config: { batch_input_shape: [null, 8, 8, 1], dtype: "float32" } };
const conv = { className: "Conv2D", config: { filters: 1, kernel_size: [3, 3], use_bias: false } };
const kernel = { name: "kernel", dtype: "F32", shape: [3, 3, 1, 1], trainable: true } as const;

/** conv1, a pool of this class, conv2. */
function network(pooling: string): Architecture {
  const pool = { className: pooling, config: { pool_size: [2, 2] } };
  const layers = [input, conv, pool, conv].map((layer, at): LeafLayer => ({
    ...layer,
    inputs: at === 0 ? [] : [{ layer: at - 1, output: 0 }],
    weights: layer === conv ? [kernel] : [],
  }));
  return { layers, outputs: [{ layer: 3, output: 0 }] };
}

const query1 = `select m1
where m1.name like "alexnet_%" and
      m1.creation_time > "2015-11-22" and
      m1["conv[1,3,5]"].next has POOL("MAX")`;

test("selects what is stored, and follows what changes", async () => {
  const { home, ports } = await memoryHome();
  const repository = await openRepository(home, "fleet-a");
  const now = { now: () => 0 };
  const ask = async (text: string, on: FleetRepository = repository): Promise<QueryResult> =>
    runQuery(await repositorySource(on, now), text, { offset: 0, limit: 100 });
  const found = async (text: string): Promise<readonly string[]> =>
    (await ask(text)).rows.map((row) => row.map(({ name, version }) => `${name}:${version}`).join(" "));
  const save = async (
    name: string,
    pooling: string,
    lr: number,
    bases: readonly Hash[] = [],
  ): Promise<Hash> => {
    ports.clock.advance(1000);
    const architecture = network(pooling);
    const tensors = weightSlots(architecture).map(({ dtype, shape }, at) => ({
      ...{ dtype, shape, bytes: seededBytes(`${name}/${lr}/${at}`, 36) },
    }));
    const names = { ...defaultNames(architecture), layers: ["in", "conv1", "pool1", "conv2"] };
    const measurements = Buffer.from(
      JSON.stringify(
        [100, 200].map((iteration) => ({ iteration, epoch: 1, loss: lr / iteration, learningRate: lr })),
      ),
    );
    const options = { name, bases, metadata: { base_lr: lr, "commit.message": "more\nof it" }, measurements };
    return (await repository.save(modelSourceOfTensors(architecture, tensors, names), options)).summary
      .versionId;
  };
  const first = await save("alexnet_a", "MaxPooling2D", 1);
  const second = await save("alexnet_a", "MaxPooling2D", 2, [first]);
  await save("alexnet_b", "AveragePooling2D", 1, [second]);
  await save("vgg", "MaxPooling2D", 1);
  await repository.save(modelOf(tensorsOf("m")), { name: "alexnet_opaque" });

  const { rows, withoutNetwork, plan } = await ask(query1);
  assert.deepEqual(
    rows.map(([row]) => row?.versionId),
    [second, first],
  );
  assert.equal(withoutNetwork, 1);
  // Four networks would be looked at if each version were.
  assert.deepEqual(
    plan.map(({ lookedAt, kept, networks }) => [lookedAt, kept, networks]),
    [
      [5, 4, undefined],
      [4, 4, undefined],
      [4, 2, 2],
    ],
  );
  assert.deepEqual(await found('select m where not m["conv1"].next has POOL("MAX")'), ["alexnet_b:1"]);
  assert.deepEqual(
    await found('select m where m["loss"] < 0.006 and m.config.base_lr = 1 and m.name like "a%"'),
    ["alexnet_b:1", "alexnet_a:1"],
  );
  assert.deepEqual(await found('select m where m["loss", 100] = 0.02 and m["learning rate"] = 2'), [
    "alexnet_a:2",
  ]);
  assert.deepEqual(await found('select m where m descendant of "alexnet_a:1" and m.parameters = 18'), [
    "alexnet_b:1",
    "alexnet_a:2",
  ]);
  assert.deepEqual(await found("select a, b where a parent of b and a.name = b.name"), [
    "alexnet_a:1 alexnet_a:2",
  ]);
  assert.deepEqual(await found('select m where m.message like "more%it" and m.tag = "best"'), []);
  await repository.tag("alexnet_a", "best", first);
  await repository.retire(second, "asked");
  await save("vgg", "MaxPooling2D", 3);
  assert.deepEqual(await found('select m where m.tag = "best"'), ["alexnet_a:1"]);
  assert.deepEqual(await found("select m where m.number >= 1"), [
    ...["vgg:2", "alexnet_opaque:1", "vgg:1", "alexnet_b:1", "alexnet_a:1"],
  ]);
  // Through the retired version.
  assert.deepEqual(await found('select m where m descendant of "alexnet_a:1"'), ["alexnet_b:1"]);

  const unread = repository.get(first)?.record.objects.metadata;
  const damaged = Object.create(repository, {
    objects: {
      value: new Proxy(repository.objects, {
        get: (objects, name) =>
          name !== "read"
            ? (Reflect.get(objects, name) as unknown)
            : async (kind: "metadata", id: Hash) =>
                await repository.objects.read(kind, id === unread ? first : id),
      }),
    },
  }) as FleetRepository;
  const partly = await ask("select m where m.config.base_lr = 1", damaged);
  assert.deepEqual([partly.rows.length, partly.unreadable], [0, 3]);
  await repository.close();
  await assert.rejects(ask('select m where m child of "absent:1"'), { code: "MODEL_NOT_FOUND" });
});

// A server that imports a model of 50,000 tensors goes on answering: its event loop is not held up by long lists.
import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { connectOperations } from "../../../../server/interface/http/client.js";
import type { ServerOperations } from "../../../../server/interface/api/server-operations.js";
import { readHttpToken } from "../../../../server/interface/http/token.js";
import { largestSteps } from "../../../helpers/largest-steps.js";
import { startTestServer, testFleet, type TestServer } from "../../../helpers/test-server.js";
import { imports } from "../interface/http/http-requests.js";

const tensorCount = 50_000;
/** The most often that a line may run between two turns of the event loop: the ends of a few steps fall into one. */
const longestStep = 10_000;
/** The most often that a line may run for each tensor where a list is passed over at once: trees have a few levels. */
const longestPass = 20 * tensorCount;
/** Code of an import that works in steps. All else passes over a whole list at once, but over one at a time. */
const inSteps = [
  "shared/tensor/safetensors-header.ts",
  "shared/save/open-safetensors.ts",
  "shared/save/arrange-header.ts",
  "shared/save/save-model.ts",
  "shared/concurrency/in-steps.ts",
];

/** A file of small named tensors, of which every third differs by `seed`. */
function fileOfMany(seed: number): Buffer {
  const tensors: Record<string, unknown> = {};
  const data = Buffer.alloc(8 * tensorCount);
  for (let i = 0; i < tensorCount; i++) {
    tensors[`model.layers.${i}.attention.query.weight`] = {
      dtype: "F32",
      shape: [2],
      data_offsets: [8 * i, 8 * i + 8],
    };
    data.writeUInt32LE(i, 8 * i);
    data.writeUInt32LE(i % 3 === 0 ? seed : 0, 8 * i + 4);
  }
  const header = Buffer.from(JSON.stringify(tensors));
  const length = Buffer.alloc(8);
  length.writeBigUInt64LE(BigInt(header.length));
  return Buffer.concat([length, header, data]);
}

function refuseLonger(largest: ReadonlyMap<string, number>, most: number): void {
  assert.deepEqual(
    [...largest].filter(([, count]) => count > most),
    [],
  );
}

describe("a model of 50,000 tensors", () => {
  let server: TestServer;
  let remote: ServerOperations;
  before(async () => {
    server = await startTestServer();
    remote = connectOperations({
      url: server.handle.httpUrl,
      token: (await readHttpToken(server.home)) ?? "",
    });
  });
  after(() => server.remove());

  it("is imported in counted steps", async () => {
    const largest = await largestSteps(() =>
      remote.import(imports(fileOfMany(0)), { fleet: testFleet, name: "a" }),
    );
    assert.ok((largest.get("shared/save/save-model.ts") ?? 0) > 0, "it counts");
    refuseLonger(largest, longestPass);
    const long = [...largest].filter(([file, count]) => count > longestStep && inSteps.includes(file));
    assert.deepEqual(long, []);
  });

  it("is compared, read, shown and checked in one pass at a time", async () => {
    const reference = { fleet: testFleet, model: "a" };
    await remote.import(imports(fileOfMany(5)), { fleet: testFleet, name: "c", base: "a" });
    const { operations } = server.handle;
    for (const work of [
      () => operations.diff({ fleet: testFleet, a: "a", b: "c" }),
      () => operations.model(reference),
      () => operations.owners(reference),
      () => operations.verify(reference),
      async () => {
        const stream = await operations.recover(reference);
        for await (const chunk of stream.chunks) void chunk;
        await stream.report;
      },
    ])
      refuseLonger(await largestSteps(work), longestPass);
    const checking = await largestSteps(() => operations.check({ fleet: testFleet }));
    refuseLonger(checking, longestPass);
    // A store has many times the objects of a model.
    assert.ok((checking.get("shared/objects/tensor-opening.ts") ?? 0) <= longestStep);
  });

  it("is imported while a question is answered", async () => {
    let isImported = false;
    const importing = remote
      .import(imports(fileOfMany(9)), { fleet: testFleet, name: "b", base: "a" })
      .then(() => {
        isImported = true;
      });
    let answers = 0;
    while (!isImported) {
      await remote.models({ fleet: testFleet });
      if (!isImported) answers++;
    }
    await importing;
    assert.ok(answers > 10, `${answers} questions were answered meanwhile`);
  });
});

/** What "proved" covers: a replay finds, or names as stated, every member of a story that was changed. */
import assert from "node:assert/strict";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import fc from "fast-check";
import { openFleets, type OpenFleets } from "../../../../../server/services/context/open-fleets.js";
import { differingMembers } from "../../../../../server/learning/replay/compare-stories.js";
import {
  proofOfMembers,
  treeOfStory,
  type StoryParts,
} from "../../../../../server/learning/replay/told-story.js";
import { localOperations } from "../../../../../server/operations/local-operations.js";
import type { ReplayReport } from "../../../../../server/interface/api/models/evaluation-schemas.js";
import type { ServerOperations } from "../../../../../server/interface/api/server-operations.js";
import type { Home } from "../../../../../server/storage/repository/home.js";
import { openNodeHome } from "../../../../../server/storage/repository/node-home.js";
import { isStemmaError } from "../../../../../shared/errors.js";
import type { CanonicalValue } from "../../../../../shared/model/canonical-json.js";
import { decodeEnvironment } from "../../../../../shared/model/environment.js";
import { decodeMetadata } from "../../../../../shared/model/metadata.js";
import { decodeStory } from "../../../../../shared/provenance/exported-story.js";
import { nodeFiles } from "../../../../../shared/files/node-files.js";
import { canonicalSamples } from "../../../../../shared/train/datasets/canonical-samples.js";
import { loadDataset } from "../../../../../shared/train/datasets/registry.js";
import { memberAt, nameOfMember, storyMembers } from "../../../../../shared/provenance/story-members.js";
import { leavesOfStory, type StoryLeaf } from "../../../../helpers/changed-story.js";
import "../../../../helpers/property-seed.js";

const fleet = "cars";

/** Another value of the same kind. */
function otherThan(value: CanonicalValue, by: number): CanonicalValue {
  if (typeof value === "boolean") return !value;
  if (typeof value === "bigint") return value + BigInt(by);
  if (typeof value === "number") return Number.isInteger(value) ? value + by : value * (1 + by / 1000);
  return typeof value === "string" ? `${value}${by}` : by;
}

function partsOf(text: string): StoryParts {
  const { record, opened, objects } = decodeStory(text);
  return {
    record,
    opened,
    metadata: objects.metadata && decodeMetadata(objects.metadata),
    environment: objects.environment && decodeEnvironment(objects.environment),
  };
}

describe("a story of a table of flowers", () => {
  let path: string;
  let home: Home;
  let fleets: OpenFleets;
  let operations: ServerOperations;
  let story: string;
  let leaves: readonly StoryLeaf[];
  before(async () => {
    path = await mkdtemp(join(tmpdir(), "stemma-members-"));
    home = await openNodeHome(join(path, "home"));
    fleets = openFleets(home);
    await fleets.get(fleet, { create: true });
    operations = localOperations({ home, fleets, version: "test" });
    const table = Array.from({ length: 40 }, (_, row) => `${row % 7},${(row * 3) % 5},${"abc"[row % 3]}`);
    const location = join(path, "flowers.csv");
    await writeFile(location, ["length,width,kind", ...table].join("\n"));
    const parameters = { task: "classification", scaling: "standard" };
    await operations.addDataset({ fleet, name: "flowers", kind: "csv", location, parameters });
    const training = { fleet, recipe: "logistic-regression", data: "flowers", name: "flowers", seed: "7" };
    await operations.train({ ...training, parameters: { epochs: 1 } });
    ({ story } = await operations.story({ fleet, model: "flowers" }));
    leaves = leavesOfStory(story);
  });
  after(async () => {
    await fleets.close();
    await home.close();
    await rm(path, { recursive: true, force: true });
  });

  const leafAt = (...at: readonly string[]): StoryLeaf =>
    leaves.find((leaf) => leaf.path.join("/") === at.join("/")) ?? assert.fail(`no ${at.join(".")}`);
  const replay = (text: string): Promise<ReplayReport> => operations.replayStory({ fleet, story: text });

  it("is proved as it is, and every member is in one list", async () => {
    const { verdict, description, proof, text } = await replay(story);
    assert.deepEqual([verdict, description], ["proved", "reader"], text);
    assert.ok(proof !== undefined);
    const { rebuilt, bound, stated, notRebuildable } = proof;
    assert.deepEqual(notRebuildable, []);
    for (const name of ["data.columns", "data.split", "metadata.metric.after", "record.objects.measurements"])
      assert.ok(rebuilt.includes(name), name);
    assert.ok(bound.includes("provenance.engine"));
    for (const name of ["by", "times", "environment", "data.name"]) assert.ok(stated.includes(name), name);
    const all = [...rebuilt, ...bound, ...stated];
    assert.equal(new Set(all).size, all.length);
    for (const leaf of leaves) assert.ok(memberAt(leaf.path) !== undefined, `no row: ${leaf.path.join(".")}`);
  });

  it("is refuted with swapped words, another metric or other losses, and the member is named", async () => {
    const words = leafAt("data", "0", "columns", "2", "words", "0");
    for (const [lie, member] of [
      [words.with("c"), "data.0.columns.2.words"],
      [leafAt("metadata", "metric.after").with(99.5), "metadata.metric.after"],
      [leafAt("record", "objects", "measurements").with("A".repeat(43)), "record.objects.measurements"],
    ] as const) {
      const { verdict, members, text } = await replay(lie);
      assert.deepEqual([verdict, members], ["refuted", [member]]);
      assert.ok(text.includes(member), text);
    }
  });

  it("says of stored samples that their description is stated, until it is stored beside them", async () => {
    const location = join(path, "flowers.csv");
    const words = leafAt("data", "0", "columns", "2", "words", "0").with("c");
    const metric = leafAt("metadata", "metric.after").with(99.5);
    const parameters = { task: "classification", scaling: "standard" };
    const { set } = await loadDataset({ reader: "csv", parameters, location }, nodeFiles());
    const repository = await fleets.get(fleet);
    await repository.pushDataset("flowers", canonicalSamples(set));
    const without = await replay(story);
    assert.deepEqual([without.verdict, without.dataFrom, without.description], ["proved", "stored", "none"]);
    assert.match(without.text, /^tensors and measurements proved, description stated/);
    assert.ok(without.proof?.notRebuildable.includes("data.columns"));
    assert.equal((await replay(words)).description, "none");
    assert.deepEqual((await replay(metric)).members, ["metadata.metric.after"]);
    await operations.pushDataset({ fleet, name: "flowers" });
    const beside = await replay(story);
    assert.deepEqual([beside.verdict, beside.dataFrom, beside.description], ["proved", "stored", "stored"]);
    assert.ok(beside.proof?.rebuilt.includes("data.columns"));
    assert.deepEqual((await replay(words)).members, ["data.0.columns.2.words"]);
    await operations.replay({ fleet, model: "flowers" });
    const shown = await operations.model({ fleet, model: "flowers" });
    assert.deepEqual(shown.proof, beside.proof);
    assert.equal(shown.replayed?.description, "stored");
  });

  it("is not measured on data whose classes are in another order, and other classes are named", async () => {
    const location = join(path, "flowers.csv");
    const parameters = { task: "classification", scaling: "standard" };
    const table = { fleet, kind: "csv", location };
    await operations.addDataset({
      ...table,
      name: "swapped",
      parameters: { ...parameters, classNames: "c,b,a" },
    });
    const evaluate = (data: string): ReturnType<ServerOperations["evaluate"]> =>
      operations.evaluate({ fleet, model: "flowers", data, store: false });
    await assert.rejects(evaluate("swapped"), { code: "ARCHITECTURE_MISMATCH", message: /c, b, a.*a, b, c/ });
    const other = join(path, "others.csv");
    await writeFile(other, (await readFile(location, "utf8")).replaceAll(",a", ",daisy"));
    await operations.addDataset({ ...table, location: other, name: "others", parameters });
    assert.deepEqual((await evaluate("others")).words, { model: ["a", "b", "c"], data: ["b", "c", "daisy"] });
    assert.equal((await evaluate("flowers")).words, undefined);
  });

  it("property: a changed member that is rebuilt is named, and one that is stated is listed as stated", () => {
    const truth = partsOf(story);
    const described = new Set(storyMembers.filter((row) => row.isDescription).map(nameOfMember));
    fc.assert(
      fc.property(fc.nat(leaves.length - 1), fc.integer({ min: 1, max: 9 }), (index, by) => {
        const leaf = leaves[index] as StoryLeaf;
        const row = memberAt(leaf.path);
        let lie: StoryParts;
        try {
          lie = partsOf(leaf.with(otherThan(leaf.value, by)));
        } catch (error) {
          assert.ok(isStemmaError(error, "STORY_INVALID"), String(error));
          return;
        }
        const named = differingMembers(treeOfStory(lie), treeOfStory(truth), "reader");
        const proof = proofOfMembers(lie, { description: "reader" });
        const name = row === undefined ? leaf.path.join(".") : nameOfMember(row);
        if (row?.kind === "rebuilt" && row.path[0] !== "record")
          assert.ok(
            named.some((each) => leaf.path.join(".").startsWith(each)),
            `${leaf.path.join(".")} is not named`,
          );
        else assert.deepEqual(named, []);
        if (row === undefined || row.kind === "stated") assert.ok(proof.stated.includes(name), name);
        if (row?.kind === "bound") assert.ok(proof.bound.includes(name), name);
        const sent = proofOfMembers(lie, { description: "sent" });
        if (row?.isDescription === true) assert.ok(sent.stated.includes(name), name);
        assert.ok(!sent.rebuilt.some((each) => described.has(each)));
      }),
      { numRuns: 300 },
    );
  });

  it("property: whatever is changed, the replay does not prove that member", async () => {
    await fc.assert(
      fc.asyncProperty(fc.nat(leaves.length - 1), fc.integer({ min: 1, max: 9 }), async (index, by) => {
        const leaf = leaves[index] as StoryLeaf;
        const row = memberAt(leaf.path);
        let ended: ReplayReport;
        try {
          ended = await replay(leaf.with(otherThan(leaf.value, by)));
        } catch (error) {
          assert.ok(isStemmaError(error), String(error));
          return;
        }
        const isStated = row === undefined || row.kind === "stated";
        const where = `${leaf.path.join(".")}: ${ended.text}`;
        if (ended.verdict !== "proved") return;
        const { stated = [], notRebuildable = [] } = ended.proof ?? {};
        const name = row === undefined ? leaf.path.join(".") : nameOfMember(row);
        assert.ok((isStated ? stated : notRebuildable).includes(name), where);
      }),
      { numRuns: 5 },
    );
  });
});

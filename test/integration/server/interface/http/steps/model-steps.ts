/** Models: imports, lineage, differences, recoveries, replays, tags, holds, reduced ones. */
import assert from "node:assert/strict";
import type { BegunDeposit } from "../../../../../../server/interface/api/models/bundle-schemas.js";
import type { ServerOperations } from "../../../../../../server/interface/api/server-operations.js";
import type { Hash } from "../../../../../../shared/tensor/tensor.js";
import { collectBytes } from "../../../../../helpers/agent-fixtures.js";
import { testFleet as fleet } from "../../../../../helpers/test-server.js";
import { importOnto, importTiny, importWithParts, transferAnd } from "./imports.js";
import { drain, tiny, type Step } from "./step.js";

export const modelSteps: readonly Step[] = [
  { name: "fleets", ask: (at) => at.fleets() },
  { name: "health", ask: async (at) => (await at.health()).version },
  { name: "import", ask: (at) => importTiny(at, { seed: "1", name: "tiny" }) },
  {
    name: "import",
    shows: "an update",
    ask: (at) => importTiny(at, { seed: "2", name: "tiny", base: "tiny:1" }),
  },
  {
    name: "import",
    shows: "a checkpoint and the optimizer's state",
    ask: (at) => importWithParts(at, "2"),
  },
  {
    name: "import",
    shows: "two checkpoints after one iteration",
    ask: (at) => importWithParts(at, "2", [20, 20]),
    fails: "HTTP_REQUEST_INVALID",
  },
  {
    name: "import",
    shows: "a checkpoint that was cut off",
    ask: (at) => importWithParts(at, "2", [20], 1_000_000),
    fails: "SAFETENSORS_TRUNCATED",
  },
  {
    name: "import",
    shows: "some tensors of a base",
    ask: (at) => importOnto(at, { onto: "tiny:1" }),
  },
  {
    name: "import",
    shows: "some tensors, and a base besides",
    ask: (at) => importOnto(at, { onto: "tiny:1", base: "tiny:1" }),
    fails: "NOT_ALLOWED",
  },
  {
    name: "recover",
    shows: "a checkpoint",
    ask: async (at) => drain(await at.recover({ fleet, model: "parts", checkpoint: 20 })),
  },
  {
    name: "recover",
    shows: "the optimizer's state",
    ask: async (at) => drain(await at.recover({ fleet, model: "parts", part: "optimizer" })),
  },
  { name: "model", shows: "what a version uses", ask: (at) => at.model({ fleet, model: "parts" }) },
  { name: "models", ask: (at) => at.models({ fleet }) },
  { name: "listModels", ask: (at) => at.listModels({ fleet, limit: 1, offset: 1, order: "oldest" }) },
  {
    name: "listModels",
    shows: "metadata conditions",
    ask: (at) => at.listModels({ fleet, where: ["seed>=2", "note=ä"] }),
  },
  {
    name: "listModels",
    shows: "no condition",
    ask: (at) => at.listModels({ fleet, where: ["seed"] }),
    fails: "USAGE",
  },
  { name: "model", ask: (at) => at.model(tiny) },
  {
    name: "model",
    shows: "an unknown one",
    ask: (at) => at.model({ fleet, model: "none" }),
    fails: "MODEL_NOT_FOUND",
  },
  { name: "log", ask: (at) => at.log({ fleet, model: "tiny:2" }) },
  { name: "log", shows: "a page", ask: (at) => at.log({ fleet, model: "tiny:2", offset: 1, limit: 1 }) },
  { name: "descendants", ask: (at) => at.descendants({ ...tiny, limit: 5 }) },
  { name: "commonAncestor", ask: (at) => at.commonAncestor({ fleet, a: "tiny:1", b: "tiny:2" }) },
  {
    name: "commonAncestor",
    shows: "two that have none",
    ask: (at) => at.commonAncestor({ fleet, a: "tiny:1", b: "parts" }),
  },
  { name: "lineage", ask: (at) => at.lineage({ ...tiny, descendants: true }) },
  {
    name: "transfer",
    ask: async (at) => {
      const answer = await at.transfer({ fleet, model: "tiny:2", minutes: 5 });
      await at.endLease({ fleet, lease: answer.lease?.id ?? "" });
      return { ...answer, lease: null };
    },
  },
  { name: "recover", shows: "what a child takes over", ask: (at) => transferAnd(at, "recover") },
  { name: "import", shows: "a child under its lease", ask: (at) => transferAnd(at, "import") },
  {
    name: "recover",
    shows: "a lease that ended",
    ask: (at) => at.recover({ ...tiny, lease: "ab".repeat(16) }),
    fails: "LEASE_UNKNOWN",
  },
  { name: "owners", ask: (at) => at.owners({ fleet, model: "tiny:2", all: true }) },
  {
    name: "setSuccessor",
    ask: (at) => at.setSuccessor({ ...tiny, successor: "parts", because: "a question" }),
  },
  {
    name: "setSuccessor",
    shows: "a cycle",
    ask: (at) => at.setSuccessor({ fleet, model: "parts", successor: "tiny:1" }),
    fails: "NOT_ALLOWED",
  },
  { name: "successors", ask: (at) => at.successors({ fleet, model: "parts" }) },
  { name: "diff", ask: (at) => at.diff({ fleet, a: "tiny:1", b: "tiny:2" }) },
  { name: "nearest", ask: (at) => at.nearest({ fleet, model: "tiny:2" }) },
  {
    name: "runQuery",
    ask: (at) =>
      at.runQuery({ fleet, query: 'select a, b where a parent of b and a["*"] has DENSE()', limit: 5 }),
  },
  {
    name: "runQuery",
    shows: "a query that is wrong",
    ask: (at) => at.runQuery({ fleet, query: "select a wher" }),
    fails: "QUERY_INVALID",
  },
  { name: "saveQuery", ask: (at) => at.saveQuery({ fleet, name: "mine", query: "select m" }) },
  {
    name: "saveQuery",
    shows: "one that would begin from itself",
    ask: (at) => at.saveQuery({ fleet, name: "mine", query: 'select m from "mine"' }),
    fails: "QUERY_INVALID",
  },
  { name: "savedQueries", ask: (at) => at.savedQueries({ fleet }) },
  {
    name: "evaluateQuery",
    shows: "an evaluation without a configuration",
    ask: (at) =>
      at.evaluateQuery({
        fleet,
        query: 'evaluate m from "mine" with config = "c" keep top(1, m["loss"], 1)',
      }),
    fails: "QUERY_INVALID",
  },
  { name: "deleteQuery", ask: (at) => at.deleteQuery({ fleet, name: "mine" }) },
  {
    name: "deleteQuery",
    shows: "one that there is not",
    ask: (at) => at.deleteQuery({ fleet, name: "mine" }),
    fails: "NOT_FOUND",
  },
  {
    name: "saveDerived",
    ask: (at) =>
      at.saveDerived({
        fleet,
        query: 'construct b from a where a.name = "tiny" and a.number = 1 mutate a["*"].insert = RELU("r")',
        seed: "7",
      }),
  },
  {
    name: "nearest",
    shows: "an architecture that was written to a file",
    ask: async (at) => at.nearest({ fleet, modelJson: { ...(await at.modelJson(tiny)) } }),
  },
  {
    name: "nearest",
    shows: "no question",
    ask: (at) => at.nearest({ fleet }),
    fails: "USAGE",
  },
  {
    name: "diff",
    shows: "two fleets",
    ask: (at) => at.diff({ fleet, a: "a", b: "b", otherFleet: "x" }),
    fails: "NOT_ALLOWED",
  },
  { name: "modelJson", ask: (at) => at.modelJson({ ...tiny, weightsFile: "w.bin" }) },
  {
    name: "attachment",
    shows: "a file that the version has not",
    ask: (at) => at.attachment({ ...tiny, file: "x" }),
    fails: "MODEL_PART_MISSING",
  },
  { name: "recover", ask: async (at) => drain(await at.recover(tiny)) },
  { name: "recover", shows: "tfjs", ask: async (at) => drain(await at.recover({ ...tiny, form: "tfjs" })) },
  {
    name: "recover",
    shows: "some layers",
    ask: async (at) => drain(await at.recover({ ...tiny, layers: ["*"] })),
  },
  {
    name: "recover",
    shows: "a layer that it has not",
    ask: (at) => at.recover({ ...tiny, layers: ["*", "none"] }),
    fails: "LAYER_NOT_FOUND",
  },
  {
    name: "recover",
    shows: "some layers for tfjs",
    ask: (at) => at.recover({ ...tiny, form: "tfjs", layers: ["*"] }),
    fails: "NOT_ALLOWED",
  },
  {
    name: "recover",
    shows: "a checkpoint that it has not",
    ask: (at) => at.recover({ ...tiny, checkpoint: 3 }),
    fails: "MODEL_PART_MISSING",
  },
  {
    name: "recover",
    shows: "an optimizer's state that it has not",
    ask: (at) => at.recover({ ...tiny, part: "optimizer" }),
    fails: "MODEL_PART_MISSING",
  },
  {
    name: "recover",
    shows: "two parts in one",
    ask: (at) => at.recover({ ...tiny, part: "optimizer", checkpoint: 3 }),
    fails: "NOT_ALLOWED",
  },
  { name: "replay", ask: (at) => at.replay(tiny) },
  {
    name: "replay",
    shows: "an unknown one",
    ask: (at) => at.replay({ fleet, model: "none" }),
    fails: "MODEL_NOT_FOUND",
  },
  { name: "queueReplay", ask: (at) => at.queueReplay({ ...tiny, priority: 9 }) },
  { name: "replays", ask: (at) => at.replays({ fleet }) },
  {
    name: "cancelReplay",
    shows: "one that was never queued",
    ask: (at) => at.cancelReplay({ fleet, model: "tiny:2" }),
    fails: "NOT_FOUND",
  },
  { name: "verify", ask: (at) => at.verify(tiny) },
  { name: "tag", ask: (at) => at.tag({ ...tiny, tag: "best" }) },
  { name: "hold", ask: (at) => at.hold({ ...tiny, held: true, because: "a question" }) },
  {
    name: "retire",
    shows: "a held one",
    ask: (at) => at.retire({ ...tiny, because: "x" }),
    fails: "MODEL_HELD",
  },
  { name: "hold", shows: "let go", ask: (at) => at.hold({ ...tiny, held: false }) },
  { name: "reduce", ask: (at) => at.reduce({ ...tiny, scheme: "float16", name: "small" }) },
  {
    name: "mergeModels",
    ask: async (at) => {
      const merged = await at.mergeModels({
        fleet,
        models: ["tiny:1", "tiny:2"],
        name: "mean",
        weights: [1, 2],
      });
      const { summary } = merged;
      // Bases come in the order of their ids, which differ from home to home.
      const bases = [...merged.bases].sort((a, b) => a.version - b.version);
      const record = { ...summary.record, bases: bases.map(({ versionId }) => versionId) };
      return { ...merged, bases, summary: { ...summary, record } };
    },
  },
  {
    name: "averageFleet",
    shows: "too few devices",
    ask: (at) => at.averageFleet({ fleet, line: "line", select: "all", name: "mean" }),
    fails: "AVERAGE_REFUSED",
  },
  { name: "describeBundle", ask: (at) => at.describeBundle({ fleet, models: ["tiny:1"] }) },
  {
    name: "bundleObjects",
    ask: async (at) => {
      const bytes = await collectBytes(await at.bundleObjects({ fleet, models: ["tiny:1"] }));
      assert.deepEqual(bytes.subarray(-2), new Uint8Array(2));
      return null;
    },
  },
  {
    name: "proveBundle",
    ask: async (at) => {
      const { objects } = await at.describeBundle({ fleet, models: ["tiny:1"] });
      const wanted = { objects: objects.tensor ?? [], challenge: "ab".repeat(32) as Hash };
      return at.proveBundle({ fleet, models: ["tiny:1"], ...wanted });
    },
  },
  { name: "beginDeposit", ask: depositTiny },
  {
    name: "depositObjects",
    ask: async (at) => {
      const { deposit } = await depositTiny(at);
      const entries = await at.bundleObjects({ fleet, models: ["tiny:1"] });
      return at.depositObjects({ fleet, deposit }, entries);
    },
  },
  {
    name: "finishDeposit",
    ask: async (at) => {
      const { deposit } = await depositTiny(at);
      return at.finishDeposit({ fleet, deposit, list: true, license: "MIT", task: "regression" });
    },
  },
  { name: "searchHub", ask: (at) => at.searchHub({ fleet, text: "tiny" }) },
];

async function depositTiny(at: ServerOperations): Promise<BegunDeposit> {
  const manifest = await at.describeBundle({ fleet, models: ["tiny:1"] });
  return await at.beginDeposit({ fleet, manifest });
}

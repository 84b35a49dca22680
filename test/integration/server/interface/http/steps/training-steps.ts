/** Data sets, trainings, stories, redaction and evaluations. */
import assert from "node:assert/strict";
import { testFleet as fleet } from "../../../../../helpers/test-server.js";
import { drain, tiny, type Step } from "./step.js";

const smallTraining = { fleet, recipe: "battery-soh", data: "cells", parameters: { epochs: 1 }, seed: "7" };

export const trainingSteps: readonly Step[] = [
  {
    name: "addDataset",
    ask: (at) =>
      at.addDataset({
        fleet,
        name: "cells",
        kind: "battery-simulated",
        location: "",
        parameters: { vehicle: 2 },
      }),
  },
  { name: "datasets", ask: (at) => at.datasets({ fleet }) },
  { name: "checkDataset", ask: (at) => at.checkDataset({ fleet, name: "cells" }) },
  {
    name: "fetchDataset",
    shows: "one that is not stored",
    ask: (at) => at.fetchDataset({ fleet, name: "cells" }),
    fails: "NOT_FOUND",
  },
  { name: "pushDataset", ask: (at) => at.pushDataset({ fleet, name: "cells" }) },
  {
    name: "fetchDataset",
    ask: async (at) => drain(await at.fetchDataset({ fleet, name: "cells" })),
  },
  { name: "train", ask: (at) => at.train({ ...smallTraining, name: "soh" }) },
  { name: "explainRecovery", ask: (at) => at.explainRecovery(tiny) },
  {
    name: "rebaseEngine",
    shows: "an engine that is not here",
    ask: (at) => at.rebaseEngine({ ...tiny, engine: "0123456789" }),
    fails: "NOT_FOUND",
  },
  { name: "rebaseEngine", ask: async (at) => (await at.rebaseEngine(tiny)).reason },
  {
    name: "spotCheck",
    shows: "a model whose device committed to no states",
    ask: (at) => at.spotCheck({ ...tiny, segments: 2 }),
    fails: "REPLAY_INCOMPLETE",
  },
  {
    name: "story",
    shows: "none of a model that was imported",
    ask: (at) => at.story(tiny),
    fails: "NOT_FOUND",
  },
  { name: "story", ask: async (at) => Object.keys(await at.story({ fleet, model: "soh" })) },
  {
    name: "replayStory",
    shows: "a story that is malformed",
    ask: (at) => at.replayStory({ fleet, story: "{}" }),
    fails: "STORY_INVALID",
  },
  {
    name: "replayChangedStory",
    shows: "a story that is malformed",
    ask: (at) => at.replayChangedStory({ fleet, story: "{}", name: "other", set: { epochs: 2 } }),
    fails: "STORY_INVALID",
  },
  {
    name: "replayChangedStory",
    ask: async (at) => {
      const { story } = await at.story({ fleet, model: "soh" });
      return (await at.replayChangedStory({ fleet, story, name: "from-file", set: { epochs: 2 } })).changes;
    },
  },
  {
    name: "replayChanged",
    shows: "nothing that can be replayed",
    ask: (at) => at.replayChanged({ ...tiny, name: "other", set: { epochs: 2 } }),
    fails: "REPLAY_INCOMPLETE",
  },
  {
    name: "replayChanged",
    ask: async (at) =>
      (await at.replayChanged({ fleet, model: "soh", name: "other", set: { "trainer.epochs": 2 } })).changes,
  },
  {
    name: "redact",
    ask: async (at) => {
      const before = await at.model({ fleet, model: "soh" });
      assert.match(JSON.stringify(before.provenance), /"seed":"7"/);
      await at.redact({ fleet, model: "soh", because: "a customer's" });
      const { provenance } = await at.model({ fleet, model: "soh" });
      assert.doesNotMatch(JSON.stringify(provenance), /"seed"/);
      // A store that dropped the openings is whole.
      await at.collect({ fleet, ...(await at.planCollection({ fleet })) });
      assert.deepEqual((await at.check({ fleet })).problems, []);
      return (await at.model({ fleet, model: "soh" })).record.objects.openings !== undefined;
    },
  },
  {
    name: "replayStory",
    shows: "why a redacted one cannot be replayed",
    ask: async (at) => {
      const { story } = await at.story({ fleet, model: "soh" });
      return (await at.replayStory({ fleet, story })).verdict;
    },
  },
  {
    name: "redact",
    shows: "nothing to redact",
    ask: (at) => at.redact({ fleet, model: "tiny:1" }),
    fails: "NOT_FOUND",
  },
  {
    name: "evaluate",
    ask: (at) => at.evaluate({ fleet, model: "soh", data: "cells", limit: 10, predictions: true }),
  },
  { name: "evaluations", ask: (at) => at.evaluations({ fleet, model: "soh" }) },
  {
    name: "evaluation",
    ask: async (at) => {
      const [first] = await at.evaluations({ fleet });
      const evaluation = first!.evaluation.slice(0, 12);
      const details = await at.evaluation({ fleet, evaluation, from: 8, rows: 100 });
      assert.equal(details.evaluation, first!.evaluation);
      assert.equal(details.predictions?.rows.length, 2, "of ten samples, those from the ninth on");
      return details;
    },
  },
  {
    name: "evaluation",
    shows: "an unknown one",
    ask: (at) => at.evaluation({ fleet, evaluation: "0123456789" }),
    fails: "NOT_FOUND",
  },
  {
    name: "evaluateProgressively",
    shows: "a regression",
    ask: (at) => at.evaluateProgressively({ fleet, model: "soh", data: "cells", limit: 10 }),
    fails: "USAGE",
  },
  {
    name: "showDataset",
    ask: async (at) => {
      const details = await at.showDataset({ fleet, name: "cells" });
      return { ...details, usedBy: details.usedBy.map((each) => ({ ...each, versionId: "0".repeat(64) })) };
    },
  },
  {
    name: "removeDataset",
    shows: "one that a version was trained with",
    ask: (at) => at.removeDataset({ fleet, name: "cells" }),
    fails: "DATASET_IN_USE",
  },
  {
    name: "removeDataset",
    ask: async (at) => {
      await at.addDataset({ fleet, name: "spare", kind: "battery-simulated", location: "" });
      return at.removeDataset({ fleet, name: "spare" });
    },
  },
];

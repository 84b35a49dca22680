// A device's own software that takes part in trials on live inputs; docs/live-trials.md explains it. Node only.
// It runs a linear model on live inputs, and beside it the version that the agent has on trial: one of a table (recipe
// linear-regression), which makes its inputs by its own pipeline.json, since another version may have other scales; or
// one that takes numbers ("weight" and "bias", as own-trainer.mjs makes them). It ends when the agent closes the
// connection; the service that runs it starts it again.
//   node live-trial.mjs AGENT_HOME LINE < inputs.jsonl      {"values": […], "label": …} a line; of a table
//                                                          {"row": {"column": value, …}, "label": …}
import { existsSync, readFileSync } from "node:fs";
import { connect } from "node:net";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { inputsOf, linearModel, outputsOf, tablePipeline, tensorsOf } from "./table-inputs.mjs";

const [home, line] = process.argv.slice(2);
const askMs = 30_000; // How often it asks what is on trial.
const batch = 20; // Observations of one request.

/** The agent's socket for samples: one request and one answer a line. */
function openAgent() {
  const socket = connect(JSON.parse(readFileSync(join(home, "run.json"), "utf8")).samples);
  const answers = createInterface({ input: socket })[Symbol.asyncIterator]();
  return {
    ask: async (request) => {
      socket.write(`${JSON.stringify(request)}\n`);
      const answer = JSON.parse((await answers.next()).value);
      if (!answer.ok) throw new Error(`${answer.message} [${answer.code}]`);
      return answer.result;
    },
    close: () => socket.end(),
  };
}

/** What a version makes of one live input. */
function load(folder) {
  const tensors = tensorsOf(readFileSync(join(folder, "model.safetensors")));
  const path = join(folder, "pipeline.json");
  if (existsSync(path)) {
    const pipeline = tablePipeline(readFileSync(path));
    const model = linearModel(tensors);
    return (row) => outputsOf(model, inputsOf(pipeline, row));
  }
  const { weight, bias } = tensors;
  return (values) =>
    [...bias.numbers].map((each, row) =>
      values.reduce((sum, value, at) => sum + value * weight.numbers[row * values.length + at], each),
    );
}

/** @throws where an output is not a number */
function run(model, values) {
  const startMs = performance.now();
  const outputs = model(values);
  if (!outputs.every(Number.isFinite)) throw new Error("an output is not a number");
  return { outputs, ms: Math.max(performance.now() - startMs, 1e-6) };
}

/** What both make of one input, as the agent takes it. */
function compare(models, { row, values = row, label }) {
  const ran = {};
  for (const name of ["running", "trial"])
    try {
      ran[name] = run(models[name], values);
    } catch (error) {
      console.error(`${name}: ${error.message}`);
    }
  const { running, trial } = ran;
  if (running === undefined || trial === undefined)
    return { failed: running !== undefined ? "trial" : trial !== undefined ? "running" : "both" };
  return {
    outputs: { running: running.outputs, trial: trial.outputs },
    label,
    milliseconds: { running: running.ms, trial: trial.ms },
  };
}

function loadBoth({ running, trial }) {
  try {
    return { running: load(running.folder), trial: load(trial.folder) };
  } catch (error) {
    // A version that cannot be loaded fails on every input.
    console.error(`load: ${error.message}`);
    return { running: load(running.folder), trial: undefined };
  }
}

const agent = openAgent();
let askedAt = -Infinity;
let onTrial;
let observations = [];
for await (const text of createInterface({ input: process.stdin })) {
  const live = JSON.parse(text);
  if (onTrial === undefined && performance.now() - askedAt > askMs) {
    askedAt = performance.now();
    const state = await agent.ask({ do: "trial", line });
    if (state.trial !== null && state.running !== null)
      onTrial = {
        models: loadBoth(state),
        ids: { running: state.running.versionId, trial: state.trial.versionId },
      };
  }
  // Here the software does what it does with the outputs of the running model. Those of the version on trial
  // are only compared.
  if (onTrial === undefined) continue;
  observations.push(compare(onTrial.models, live));
  if (observations.length < batch) continue;
  try {
    const answer = await agent.ask({ do: "observe", line, ...onTrial.ids, observations });
    console.error(`${answer.compared} of ${answer.wanted} live inputs compared`);
    if (answer.isComplete) onTrial = undefined;
  } catch (error) {
    // Such as a trial that ended; it asks again what is on trial.
    console.error(error.message);
    onTrial = undefined;
  }
  observations = [];
}
agent.close();

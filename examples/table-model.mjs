// A device's own software that runs a linear model of a table (recipes logistic-regression and linear-regression) on
// rows as they are measured: their inputs are made as in the training, by pipeline.json beside the model
// (docs/provenance.md, "Input pipelines"). Node only.
//   node table-model.mjs AGENT_HOME LINE < rows.jsonl      {"column": value, …} a line
import { createHash } from "node:crypto";
import { readFileSync, readlinkSync } from "node:fs";
import { join, resolve } from "node:path";
import { createInterface } from "node:readline";
import { inputsOf, linearModel, outputsOf, tablePipeline, tensorsOf } from "./table-inputs.mjs";

const [home, line] = process.argv.slice(2);

/** The files of the version that the line runs; the link is read once, since it may be switched at any time. */
function openVersion() {
  const folder = resolve(home, "current", readlinkSync(join(home, "current", line)));
  const { files, versionId } = JSON.parse(readFileSync(join(folder, "manifest.json")));
  const read = (name) => {
    const bytes = readFileSync(join(folder, name));
    if (createHash("sha256").update(bytes).digest("hex") !== files[name].sha256)
      throw new Error(`${join(folder, name)} is damaged; have the agent install it again`);
    return bytes;
  };
  return { versionId, read, has: (name) => files[name] !== undefined };
}

const version = openVersion();
if (!version.has("pipeline.json")) throw new Error("the version came without its input pipeline");
const pipeline = tablePipeline(version.read("pipeline.json"));
const model = linearModel(tensorsOf(version.read("model.safetensors")));
const { words } = pipeline.columns.find(({ role }) => role === "target") ?? {};
for await (const text of createInterface({ input: process.stdin })) {
  const inputs = inputsOf(pipeline, JSON.parse(text));
  const outputs = outputsOf(model, inputs);
  const answer = words === undefined ? outputs : words[outputs.indexOf(Math.max(...outputs))];
  console.log(JSON.stringify({ version: version.versionId.slice(0, 12), inputs, answer }));
}

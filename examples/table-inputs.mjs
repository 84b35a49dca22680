// How rows of a table become the inputs of a model, by pipeline.json beside it (docs/provenance.md, "Input pipelines").
// table-model.mjs and live-trial.mjs use it; copy it with them. Node only.

/** @throws where it is not the pipeline of a table, in the format that this program knows */
export function tablePipeline(text) {
  const pipeline = JSON.parse(text);
  if (pipeline.kind !== "stemma-pipeline" || pipeline.format !== 1)
    throw new Error(`the model is not one of tables, but of ${pipeline.kind} ${pipeline.format}`);
  return pipeline;
}

/** @throws where the row lacks a column, or has a word that the training did not see */
export function inputsOf({ columns }, row) {
  return columns
    .filter(({ role }) => role === "input")
    .flatMap(({ name, words, centre = 0, scale = 1 }) => {
      if (words === undefined) {
        const number = typeof row[name] === "number" ? row[name] : NaN;
        if (!Number.isFinite(number)) throw new Error(`the row has no number in "${name}"`);
        return [Math.fround((number - centre) / scale)];
      }
      if (!words.includes(row[name])) throw new Error(`"${name}" is none of ${words.join(", ")}`);
      return words.map((word) => (word === row[name] ? 1 : 0));
    });
}

/** The tensors of a safetensors file with float32, by name: numbers and shape. */
export function tensorsOf(bytes) {
  const start = 8 + Number(bytes.readBigUInt64LE(0));
  const { __metadata__, ...tensors } = JSON.parse(bytes.subarray(8, start));
  return Object.fromEntries(
    Object.entries(tensors).map(
      ([
        name,
        {
          shape,
          data_offsets: [from, to],
        },
      ]) => [
        name,
        {
          shape,
          numbers: new Float32Array(Uint8Array.from(bytes.subarray(start + from, start + to)).buffer),
        },
      ],
    ),
  );
}

/** What a linear model gives: `kernel` has a row for each input and a column for each output. */
export function outputsOf({ kernel, bias }, inputs) {
  return [...bias].map((each, output) =>
    inputs.reduce((sum, input, at) => sum + input * kernel[at * bias.length + output], each),
  );
}

/** The only matrix and the only vector of a linear model of a table. */
export function linearModel(tensors) {
  const all = Object.values(tensors);
  const kernel = all.find(({ shape }) => shape.length === 2);
  const bias = all.find(({ shape }) => shape.length === 1);
  if (all.length !== 2 || kernel === undefined || bias === undefined)
    throw new Error("the model is not a linear one");
  return { kernel: kernel.numbers, bias: bias.numbers };
}

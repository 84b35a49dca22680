/** The recipe that `stemma recipe init` writes, which trains as it is. */
import { recipeModule } from "./bundle.js";

export const scaffoldFile = "recipe.mjs";

export const scaffold = `import { Network } from "${recipeModule}";

// The only export that counts. Everything in it is plain data but for model() and plan().
export const recipe = {
  name: "my-recipe",
  version: 1,
  title: "a hidden layer over the columns of a table",
  task: "regression", // or "classification", "general", "any"
  metric: { name: "mean absolute error", unit: "", lowerIsBetter: true },
  loss: "mean-squared-error",
  parameters: {
    // Parameters of the training loop can have other defaults here ...
    epochs: { default: 30, fineTune: 10 },
    learningRate: { default: 0.01, fineTune: 0.003 },
    // ... and a recipe can have parameters of its own.
    hidden: { type: "integer", min: 1, max: 1024, default: 16, help: "width of the hidden layer" },
  },

  // The network of a training that begins from scratch.
  model({ parameters, data }) {
    const net = new Network();
    const flat = data.inputShape.length === 1 ? net.input : net.flatten(net.input);
    const hidden = net.dense(flat, parameters.hidden, "relu");
    // Begins by predicting the mean of each target.
    return net.end(net.linear(hidden, data.targetSize, data.targetMeans));
  },

  // What else the training loop is told. \`set\` overrides its parameters.
  plan({ data }) {
    return { set: { batchSize: data.samples < 500 ? 8 : 32 }, frozenLayers: [] };
  },
};
`;

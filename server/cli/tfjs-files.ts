/** The files that `model recover --form tfjs` writes into a folder. Pure. */
export const tfjsNames = { json: "model.json", weights: "weights.bin" } as const;

/** The text of a model.json. */
export const modelJsonText = (json: unknown): string => `${JSON.stringify(json)}\n`;

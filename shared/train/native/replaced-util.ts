/** Takes the place of Node's `util` for @tensorflow/tfjs-node-gpu, which uses two functions that Node 23 removed. */
export const isArray = Array.isArray;
export const isNullOrUndefined = (value: unknown): boolean => value === null || value === undefined;

/**
 * The source text of what a recipe's own code finds in the interpreter. It has the module `stemma:recipe`, and removes
 * from the language first what is not the same everywhere or makes code out of text. Part of the engine.
 */

/** Runs before the recipe. A member that its input does not have is an error and not undefined, which would be NaN. */
export const prelude = `(() => {
  const asked = new Set(["toJSON", "then"]);
  const strict = (value, name) => {
    if (typeof value !== "object" || value === null) return value;
    for (const key of Object.keys(value)) value[key] = strict(value[key], name === "" ? key : name + "." + key);
    return new Proxy(value, {
      get(target, key) {
        if (typeof key === "symbol" || key in target || asked.has(key)) return target[key];
        throw new TypeError((name || "the input") + " has no member " + key + (Array.isArray(target)
          ? "; its length is " + target.length : "; it has " + Object.keys(target).join(", ").slice(0, 200)));
      },
    });
  };
  globalThis.__call.input = strict(globalThis.__call.input, "");
  const absent = ["Date","Proxy","WeakRef","FinalizationRegistry","SharedArrayBuffer","Atomics","WeakMap","WeakSet",
    "eval","Promise","Float16Array","escape","unescape","performance","console"];
  const names = [function(){}, function*(){}, async function(){}, async function*(){}].map(Object.getPrototypeOf);
  const refused = function () { throw new TypeError("code is not made out of text in a recipe"); };
  for (const prototype of names)
    Object.defineProperty(prototype, "constructor", { value: refused, writable: false, configurable: false });
  Object.defineProperty(globalThis, "Function", { value: refused, writable: false, configurable: false });
  for (const name of absent) delete globalThis[name];
  delete Math["random"];
  delete Error.captureStackTrace;
  delete Error.prepareStackTrace;
  for (const method of ["localeCompare", "normalize", "toLocaleLowerCase", "toLocaleUpperCase"])
    delete String.prototype[method];
})()`;

/** The source of the module `stemma:recipe`. */
export const moduleSource = `
export { constant, where, concatenate } from "stemma:expressions";
const host = globalThis.__stemma;
delete globalThis.__stemma;
const numberOf = (name, kind, argument) => host(String(name), kind, argument);
export function random(name) {
  return Object.freeze({
    word: () => numberOf(name, "word", 0),
    uniform: () => numberOf(name, "uniform", 0),
    normal: () => numberOf(name, "normal", 0),
    integer: (below) => numberOf(name, "integer", Number(below)),
  });
}
export class Network {
  #operations = [];
  input = 0;
  #add(operation) { this.#operations.push(operation); return this.#operations.length; }
  dense(from, units, activation = "linear") { return this.#add({ op: "dense", from, units, activation }); }
  linear(from, units, start = 0) { return this.#add({ op: "linear", from, units, start }); }
  convolution(from, options) { return this.#add({ ...options, op: "convolution", from }); }
  recurrent(from, kind, units) { return this.#add({ op: "recurrent", from, kind, units }); }
  dropout(from, rate) { return this.#add({ op: "dropout", from, rate }); }
  reshape(from, shape) { return this.#add({ op: "reshape", from, shape }); }
  batchNorm(from) { return this.#add({ op: "batchNorm", from }); }
  relu6(from) { return this.#add({ op: "relu6", from }); }
  sigmoid(from) { return this.#add({ op: "sigmoid", from }); }
  maxPool(from) { return this.#add({ op: "maxPool", from }); }
  averagePool(from) { return this.#add({ op: "averagePool", from }); }
  globalAverage(from) { return this.#add({ op: "globalAverage", from }); }
  flatten(from) { return this.#add({ op: "flatten", from }); }
  sum(one, other) { return this.#add({ op: "sum", from: [one, other] }); }
  product(one, other) { return this.#add({ op: "product", from: [one, other] }); }
  concatenate(...from) { return this.#add({ op: "concatenate", from }); }
  end(...outputs) { return { operations: this.#operations, outputs }; }
}
`;

/** The module that calls the recipe. Its only export is what the recipe answers, as JSON. */
export const callerSource = `
import * as own from "stemma:own";
import { writeAugmentation, writeLoss } from "stemma:expressions";
const { call, input } = globalThis.__call;
delete globalThis.__call;
const recipe = own.recipe;
if (typeof recipe !== "object" || recipe === null) throw new TypeError("it exports no object named recipe");
const { model, plan, loss, augment, ...described } = recipe;
if (typeof model !== "function") throw new TypeError("recipe.model is not a function");
for (const [name, value] of Object.entries({ plan, augment }))
  if (value !== undefined && typeof value !== "function")
    throw new TypeError("recipe." + name + " is not a function");
const isOwn = typeof loss === "function";
if (loss === "own" && !isOwn) throw new TypeError("recipe.loss is not a function");
described.loss = isOwn ? "own" : loss;
if (augment !== undefined) described.augments = true;
for (const [name, value] of Object.entries(described))
  if (typeof value === "function") throw new TypeError("recipe has no function named " + name);
const called = {
  describe: () => described,
  model,
  plan: plan ?? (() => ({})),
  loss: (given) => writeLoss((...tensors) => synchronous(loss(...tensors)), given),
  augment: (given) => writeAugmentation((...tensors) => synchronous(augment(...tensors)), given),
}[call];
const synchronous = (value) => {
  if (typeof value?.then === "function") throw new TypeError(call + "() is asynchronous");
  return value;
};
const answer = synchronous(called(input));
if (answer === undefined) throw new TypeError(call + "() gave nothing back");
export const json = JSON.stringify(answer, function (name, value) {
  if (["function", "symbol"].includes(typeof value)) throw new TypeError(name + " is a " + typeof value);
  if (value === undefined && Array.isArray(this)) throw new TypeError("the item " + name + " of a list is undefined");
  if (typeof value === "number" && !Number.isFinite(value)) throw new RangeError(name + " is not a finite number");
  return ArrayBuffer.isView(value) ? Array.from(value) : value;
});
`;

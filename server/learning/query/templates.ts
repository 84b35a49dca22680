/**
 * Templates of layers in conditions (MH, section III-B): the names that the paper uses, for groups of classes, and the
 * name of every class that Stemma builds. Pure.
 */
import { allowedLayers } from "../../../shared/model/layer-catalog.js";
import type { LayerForm, NetworkLayer } from "./network.js";
import { matchOf, selectorPattern, usedCaptures, withCaptures, type Captures } from "./patterns.js";
import type { FailAt } from "./query-errors.js";
import type { Template, TemplateArgument } from "./syntax.js";

interface LayerGroup {
  readonly classes: readonly string[];
  /** An Activation layer with this function belongs to it too. */
  readonly activation?: string;
  /** Parts of it that a first argument names. */
  readonly kinds?: Readonly<Record<string, readonly string[]>>;
}

const maximum = ["MaxPooling1D", "MaxPooling2D", "GlobalMaxPooling1D", "GlobalMaxPooling2D"];
const average = ["AveragePooling1D", "AveragePooling2D", "GlobalAveragePooling1D", "GlobalAveragePooling2D"];
const groups: Readonly<Record<string, LayerGroup>> = {
  CONV: { classes: ["Conv1D", "Conv2D", "SeparableConv2D", "DepthwiseConv2D"] },
  POOL: { classes: [...maximum, ...average], kinds: { MAX: maximum, AVG: average } },
  FULL: { classes: ["Dense"] },
  NORM: {
    classes: ["BatchNormalization", "LayerNormalization"],
    kinds: { BATCH: ["BatchNormalization"], LAYER: ["LayerNormalization"] },
  },
  RNN: { classes: ["SimpleRNN", "GRU", "LSTM"] },
  DROPOUT: { classes: ["Dropout", "SpatialDropout1D", "GaussianDropout", "AlphaDropout"] },
  INPUT: { classes: ["InputLayer"] },
  RELU: { classes: ["ReLU"], activation: "relu" },
  ELU: { classes: ["ELU"], activation: "elu" },
  SOFTMAX: { classes: ["Softmax"], activation: "softmax" },
  SIGMOID: { classes: [], activation: "sigmoid" },
  TANH: { classes: [], activation: "tanh" },
};
/** Names of the groups. @internal The page on queries is compared with them. */
export const templateNames: readonly string[] = Object.keys(groups);
/** Class names in capitals, as templates are compared. */
const classNames = new Map(allowedLayers.map((name) => [name.toUpperCase(), name]));

/** True if a layer, whose selector captured these texts, is as the template describes it. */
export type LayerTest = (layer: NetworkLayer, captures: Captures) => boolean;

/** @param captured numbers of the captures that the template may use */
export function layerTest(
  { name, args, at }: Template,
  captured: ReadonlySet<number>,
  fail: FailAt,
): LayerTest {
  const key = name.toUpperCase();
  const className = classNames.get(key);
  const group = groups[key] ?? (className === undefined ? undefined : { classes: [className] });
  if (group === undefined) {
    const known = templateNames.join(", ");
    fail(
      at,
      `${name.slice(0, 40)} is not a template; there are ${known} and the class of every layer, such as Dense`,
    );
  }
  const [first, ...others] = args;
  const kind = first?.setting === undefined && first ? group.kinds?.[first.value.toUpperCase()] : undefined;
  const classes = new Set(kind ?? group.classes);
  const rest = (kind === undefined ? args : others).map((arg) => argumentTest(arg, captured, fail));
  const isOfGroup = (form: LayerForm): boolean =>
    classes.has(form.className) ||
    (group.activation !== undefined &&
      form.className === "Activation" &&
      form.config["activation"] === group.activation);
  return (layer, captures) =>
    layer.forms.some((form) => isOfGroup(form) && rest.every((test) => test(layer, form, captures)));
}

type ArgumentTest = (layer: NetworkLayer, form: LayerForm, captures: Captures) => boolean;

/** A setting has a value, and a text alone is a pattern of the layer's name. */
function argumentTest(argument: TemplateArgument, captured: ReadonlySet<number>, fail: FailAt): ArgumentTest {
  if (argument.setting !== undefined) {
    const { setting, value } = argument;
    if (typeof value === "object" && "args" in value)
      fail(value.at, "a wrapper is also what it holds: a condition names the layer inside it alone");
    return (_, { config }) => hasValue(config[setting], value);
  }
  const { value: name, at } = argument;
  const used = usedCaptures(name);
  const missing = used.find((number) => !captured.has(number));
  if (missing !== undefined) fail(at, `$${missing} is used, and the selector has no ($${missing})`);
  const failHere = (reason: string): never => fail(at, reason);
  const fixed = selectorPattern(used.length === 0 ? name : withCaptures(name, new Map()), failHere);
  return (layer, _, captures) => {
    const pattern = used.length === 0 ? fixed : selectorPattern(withCaptures(name, captures), failHere);
    return matchOf(pattern, layer.name) !== undefined;
  };
}

/** A list, such as the size of a kernel, has a value where each of its members has, and a list where it is equal. */
function hasValue(actual: unknown, value: TemplateArgument["value"]): boolean {
  if (Array.isArray(value)) return JSON.stringify(actual) === JSON.stringify(value);
  return Array.isArray(actual)
    ? actual.length > 0 && actual.every((each) => each === value)
    : actual === value;
}

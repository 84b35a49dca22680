/** Makes a layer of a template in a mutation: RELU("relu$1"), DENSE("fc_new", units=10). Pure. */
import { allowedLayers, cleanLayer, type LayerConfig } from "../../../../shared/model/layer-catalog.js";
import type { Shape } from "../../../../shared/model/layer-shapes.js";
import type { Json, JsonObject } from "../../../../shared/tensor/strict-json.js";
import { usedCaptures, type Captures } from "../patterns.js";
import type { FailAt } from "../query-errors.js";
import type { SettingValue, Template, TextArgument } from "../syntax.js";
import { joiningLayers } from "./check-inputs.js";
import { notDerivable, shown } from "./draft.js";

export interface NewLayer {
  readonly nameOf: (captures: Captures) => string;
  /** The layer behind an input of this shape; undefined: not known. */
  readonly formFor: (input: Shape | undefined) => LayerForm;
}

interface LayerForm {
  readonly className: string;
  readonly config: LayerConfig;
}

interface Maker {
  /** The classes that it may make, by the number of axes of a sample. */
  readonly classes: readonly string[];
  readonly config?: Readonly<Record<string, Json>>;
}

const maxNameCharacters = 200;
const windows = (name: string): Maker => ({ classes: [`${name}2D`, `${name}1D`] });
/** The templates of the paper that stand for a group of classes; a group with kinds needs one of them. */
const groups: Readonly<Record<string, Maker | Readonly<Record<string, Maker>>>> = {
  CONV: windows("Conv"),
  POOL: { MAX: windows("MaxPooling"), AVG: windows("AveragePooling") },
  FULL: { classes: ["Dense"] },
  NORM: { BATCH: { classes: ["BatchNormalization"] }, LAYER: { classes: ["LayerNormalization"] } },
  DROPOUT: { classes: ["Dropout"] },
  RELU: { classes: ["ReLU"] },
  ELU: { classes: ["ELU"] },
  // TensorFlow.js's default is axis 1, and Keras's the last one.
  SOFTMAX: { classes: ["Softmax"], config: { axis: -1 } },
  SIGMOID: { classes: ["Activation"], config: { activation: "sigmoid" } },
  TANH: { classes: ["Activation"], config: { activation: "tanh" } },
};
const classNames = new Map(allowedLayers.map((name) => [name.toUpperCase(), name]));

/** Settings that the catalog does without, and a layer that is made here does not. */
const needed: Readonly<Record<string, string>> = {
  ...settingOf("pool_size", "MaxPooling1D MaxPooling2D AveragePooling1D AveragePooling2D"),
  ...settingOf("rate", "Dropout SpatialDropout1D GaussianDropout AlphaDropout"),
  ...{ GaussianNoise: "stddev", ZeroPadding2D: "padding", Cropping2D: "cropping", UpSampling2D: "size" },
  Rescaling: "scale offset",
};

function settingOf(setting: string, names: string): Readonly<Record<string, string>> {
  return Object.fromEntries(names.split(" ").map((name) => [name, setting]));
}

/** @param captured numbers of the captures that the name may use. @throws QUERY_INVALID */
export function compileNewLayer(template: Template, captured: ReadonlySet<number>, fail: FailAt): NewLayer {
  const { maker, texts } = makerOf(template, fail);
  const forms = maker.classes.map((className) => formOf(className, { template, maker }, fail));
  const [name, ...others] = texts;
  if (name === undefined) return fail(template.at, 'the new layer has no name; write such as RELU("relu$1")');
  if (others[0] !== undefined) fail(others[0].at, "the new layer has a name already");
  const text = name.value;
  const missing = usedCaptures(text).find((number) => !captured.has(number));
  if (missing !== undefined) fail(name.at, `$${missing} is used, and the selector has no ($${missing})`);
  return {
    nameOf: (captures) => nameOf(text, captures),
    formFor: (input) => (input?.length === 2 ? forms.at(-1) : forms[0]) as LayerForm,
  };
}

function nameOf(text: string, captures: Captures): string {
  const name = text.replace(/\$([1-9])/g, (_, number: string) => captures.get(Number(number)) ?? "");
  if (!/^[^\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]+$/u.test(name) || name.length > maxNameCharacters)
    throw notDerivable(
      `a layer cannot have the name ${shown(name)}: use 1 to ${maxNameCharacters} printable characters`,
    );
  return name;
}

/** The classes that a template makes, and the texts that stand in it besides its kind. */
function makerOf(
  { name, args, at }: Template,
  fail: FailAt,
): { readonly maker: Maker; readonly texts: readonly TextArgument[] } {
  const key = name.toUpperCase();
  const texts = args.filter((argument) => argument.setting === undefined);
  const className = classNames.get(key);
  const group = Object.hasOwn(groups, key) ? groups[key] : className && { classes: [className] };
  if (className === "InputLayer" || key === "INPUT") return fail(at, "an input cannot stand behind a layer");
  if (group === undefined || group === "")
    return fail(
      at,
      `${name.slice(0, 40)} makes no layer; there are ${Object.keys(groups).join(", ")} and the class of every ` +
        "layer, such as LSTM",
    );
  const isMaker = (value: object): value is Maker => "classes" in value;
  if (isMaker(group)) {
    if (group.classes.some((each) => joiningLayers.has(each)))
      fail(at, `${name} joins several layers, and one that is inserted follows one`);
    return { maker: group, texts };
  }
  const kind = (texts[0]?.value ?? "").toUpperCase();
  const maker = Object.hasOwn(group, kind) ? group[kind] : undefined;
  if (maker === undefined)
    return fail(
      at,
      `${key} has the kinds ${Object.keys(group)
        .map((each) => `"${each}"`)
        .join(" and ")}; name one first`,
    );
  return { maker, texts: texts.slice(1) };
}

interface Made {
  readonly template: Template;
  readonly maker: Maker;
}

function formOf(className: string, { template, maker }: Made, fail: FailAt): LayerForm {
  const failHere = (reason: string): never => fail(template.at, `${className}: ${reason}`);
  const settings = new Map<string, Json>(Object.entries(maker.config ?? {}));
  for (const { setting, value, at } of template.args) {
    if (setting === undefined) continue;
    if (settings.has(setting)) fail(at, `${setting.slice(0, 40)} is set already`);
    settings.set(setting, jsonOf(value, fail));
  }
  const config = cleanLayer(className, settings, failHere);
  const ignored = [...settings.keys()].find((key) => !Object.hasOwn(config, key));
  if (ignored !== undefined) failHere(`it has no setting ${ignored.slice(0, 40)}`);
  const extents = config["target_shape"];
  if (Array.isArray(extents) && extents.includes(-1))
    failHere("each extent of its target_shape is to be written");
  if ([config["padding"], config["cropping"]].flat(2).some((side) => Number(side) < 0))
    failHere("a side is not negative");
  const lacking = needed[className]?.split(" ").find((setting) => config[setting] === undefined);
  if (lacking !== undefined) failHere(`it lacks its setting ${lacking}`);
  return { className, config };
}

/** A written value; a template is the layer inside a wrapper. */
function jsonOf(value: SettingValue, fail: FailAt): Json {
  if (typeof value !== "object") return value;
  if (!("args" in value)) return value;
  const { maker, texts } = makerOf(value, fail);
  if (texts[0] !== undefined) fail(texts[0].at, "a layer inside another one has no name");
  const settings = new Map<string, Json>(Object.entries(maker.config ?? {}));
  for (const { setting = "", value: inner } of value.args) settings.set(setting, jsonOf(inner, fail));
  const config: JsonObject = settings;
  return new Map<string, Json>([
    ["class_name", maker.classes[0] ?? ""],
    ["config", config],
  ]);
}

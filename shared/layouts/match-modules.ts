/**
 * Finds for each layer of an architecture the module of a PyTorch state dict that has its weights: by the types and
 * shapes of their tensors, then by names, then by the numbers in the modules' names. What stays open is refused. Pure.
 */
import { errorOf } from "../errors.js";
import type { Architecture } from "../model/model.js";
import type { DType } from "../tensor/dtype.js";
import { compareNumbered, differInNumber, type FileModule } from "./file-modules.js";
import type { ExpectedModule } from "./pytorch-layers.js";

const ambiguous = errorOf("ARCHITECTURE_MISMATCH");
/** Layers and modules that a message lists. */
const maxListed = 6;

export interface ModuleMatch {
  readonly expected: ExpectedModule;
  readonly module: FileModule;
}

export interface Matches {
  readonly matches: readonly ModuleMatch[];
  /** The number of modules whose place among equal ones is stated by no name. */
  readonly ordered: number;
}

export interface MatchInput {
  readonly architecture: Architecture;
  /** The names of its layers. */
  readonly titles: readonly string[];
  readonly expected: readonly ExpectedModule[];
  /** The modules, in the file's order. */
  readonly modules: readonly FileModule[];
  /** True where outputs are compared afterwards: then the file's order may be tried where nothing states one. */
  readonly isProved: boolean;
}

/** @throws ARCHITECTURE_MISMATCH with the layers and modules that have no partner, or several */
export function matchModules(input: MatchInput): Matches {
  const layers = grouped(input.expected, (each) => signatureOfLayer(each, input.architecture));
  const modules = grouped(input.modules, signatureOfModule);
  const open = [...new Set([...layers.keys(), ...modules.keys()])].filter(
    (signature) => layers.get(signature)?.length !== modules.get(signature)?.length,
  );
  if (open.length > 0)
    throw refused(
      "have no partner of the same tensors",
      input,
      open.flatMap((signature) => layers.get(signature) ?? []),
      open.flatMap((signature) => modules.get(signature) ?? []),
    );
  let ordered = 0;
  const matches = [...layers].flatMap(([signature, group]) => {
    const candidates = modules.get(signature) as readonly FileModule[];
    const named = group.length === 1 ? candidates : byNames(group, candidates, input.titles);
    const found = named ?? inOrder(group, candidates, input);
    if (named === undefined) ordered += group.length;
    return group.map((expected, at) => ({ expected, module: found[at] as FileModule }));
  });
  return { matches, ordered };
}

function grouped<Item>(
  items: readonly Item[],
  signature: (item: Item) => string,
): ReadonlyMap<string, readonly Item[]> {
  const groups = new Map<string, Item[]>();
  for (const item of items) {
    const key = signature(item);
    const group = groups.get(key);
    if (group === undefined) groups.set(key, [item]);
    else group.push(item);
  }
  return groups;
}

function signatureOfLayer({ layer, tensors }: ExpectedModule, { layers }: Architecture): string {
  const weights = layers[layer]?.weights ?? [];
  return signatureOf(
    tensors.map(({ name, shape, weight }) => [name, { dtype: weights[weight]?.dtype ?? "F32", shape }]),
  );
}

function signatureOfModule({ tensors }: FileModule): string {
  return signatureOf([...tensors]);
}

/** Names, types and shapes of tensors, in one order. */
function signatureOf(
  tensors: readonly (readonly [string, { readonly dtype: DType; readonly shape: readonly number[] }])[],
): string {
  return tensors
    .map(([name, { dtype, shape }]) => `${name} ${dtype} [${shape.join(", ")}]`)
    .sort()
    .join(", ");
}

/** The modules that are called as the layers, in the layers' order; undefined where not each has one. */
function byNames(
  group: readonly ExpectedModule[],
  modules: readonly FileModule[],
  titles: readonly string[],
): readonly FileModule[] | undefined {
  const byName = new Map(modules.map((module) => [plain(module.name), module]));
  const found = group.map(({ layer }) => byName.get(plain(titles[layer] ?? "")));
  return new Set(found).size === group.length && !found.includes(undefined)
    ? (found as readonly FileModule[])
    : undefined;
}

function plain(name: string): string {
  return name.toLowerCase().replace(/[^a-z0-9]/g, "_");
}

/**
 * The modules by the numbers in their names, where these state an order of all of them, and each layer gets what the
 * one before it gives.
 */
function inOrder(
  group: readonly ExpectedModule[],
  modules: readonly FileModule[],
  input: MatchInput,
): readonly FileModule[] {
  const sorted = [...modules].sort((a, b) => compareNumbered(a.name, b.name));
  const isNumbered = sorted.every(
    ({ name }, at) => at === 0 || differInNumber((sorted[at - 1] as FileModule).name, name),
  );
  const isChain = group.every(
    ({ layer }, at) =>
      at === 0 || leadsTo(input.architecture, (group[at - 1] as ExpectedModule).layer, layer),
  );
  if (isNumbered && isChain) return sorted;
  if (input.isProved) return modules;
  throw refused(
    isChain
      ? "have equal tensors, and neither names nor numbers in them state which is which"
      : "have equal tensors, and beside each other no order",
    input,
    group,
    modules,
  );
}

/** True where an output of `first` reaches `last`. Inputs come from layers before. */
function leadsTo({ layers }: Architecture, first: number, last: number): boolean {
  const reached = new Set([first]);
  for (let at = first + 1; at <= last; at++)
    if (layers[at]?.inputs.some(({ layer }) => reached.has(layer)) === true) reached.add(at);
  return reached.has(last);
}

function refused(
  reason: string,
  { titles, architecture }: MatchInput,
  layers: readonly ExpectedModule[],
  modules: readonly FileModule[],
): Error {
  const ofLayers = layers.map(
    (each) => `${titles[each.layer] ?? each.layer} (${signatureOfLayer(each, architecture)})`,
  );
  const ofModules = modules.map((each) => `${each.name} (${signatureOfModule(each)})`);
  return ambiguous(
    `The architecture's layers and the file's modules cannot be matched: some ${reason}. ` +
      `Layers: ${listed(ofLayers)}. Modules: ${listed(ofModules)}. Name the layers as the modules, write the ` +
      "layout by hand (--layout FILE), or where only the order is open prove that of the file with --check SAMPLES.",
  );
}

function listed(items: readonly string[]): string {
  if (items.length === 0) return "none";
  const more = items.length - maxListed;
  return (
    items
      .slice(0, maxListed)
      .map((item) => JSON.stringify(item.slice(0, 200)).slice(1, -1))
      .join("; ") + (more > 0 ? `; and ${more} more` : "")
  );
}

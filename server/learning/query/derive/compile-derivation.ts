/** Checks `construct` and `slice`, and makes functions of what they change. Pure. */
import { compileSelect, conjunctsOf } from "../compile-query.js";
import type { CompiledSelect, Work } from "../compiled-query.js";
import type { Scope } from "../operands.js";
import { failIn, type FailAt } from "../query-errors.js";
import type { SavedQueries } from "../saved-queries.js";
import type { Change, Construct, Cut, Slice } from "../syntax.js";
import { layerTest } from "../templates.js";
import { applyChanges, type CompiledChange, type DerivableNetwork } from "./apply-changes.js";
import { cutSlice, type SlicedDraft } from "./cut-slice.js";
import { compileNewLayer } from "./new-layer.js";
import { compileNodeSet, type NodeSet } from "./select-nodes.js";

const maxChanges = 100;

export interface CompiledDerivation {
  /** The query for the versions that models are derived from. */
  readonly select: CompiledSelect;
  /** The name of the variable for the derived models. */
  readonly derived: string;
  /** @throws ARCHITECTURE_INVALID with the reason why a network cannot be changed so */
  readonly change: (source: DerivableNetwork, work: Work) => SlicedDraft;
}

/** @throws QUERY_INVALID */
export function compileDerivation(
  statement: Construct | Slice,
  text: string,
  saved?: SavedQueries,
): CompiledDerivation {
  const fail = failIn(text);
  const { derived, source, where } = statement;
  const select = compileSelect(
    { kind: "select", variables: [source], source: null, where, at: source.at },
    text,
    saved,
  );
  if (derived.name === source.name)
    fail(source.at, `${source.name} cannot stand for the source too; give one of them another name`);
  const scope: Scope = {
    fail,
    indexOf: ({ name, at }) =>
      name === source.name ? 0 : fail(at, `layers are selected in the source, ${source.name}["…"]`),
  };
  const nodesOf = (nodes: Change["nodes"]): NodeSet => compileNodeSet(nodes, conjunctsOf(where), scope);
  const change =
    statement.kind === "construct" ? construct(statement, nodesOf, fail) : slice(statement, nodesOf, fail);
  return { select, derived: derived.name, change };
}

type NodesOf = (nodes: Change["nodes"]) => NodeSet;

function construct({ changes }: Construct, nodesOf: NodesOf, fail: FailAt): CompiledDerivation["change"] {
  const late = changes[maxChanges];
  if (late !== undefined) fail(late.template.at, `more than ${maxChanges} changes`);
  const compiled = changes.map(({ nodes, action, template }): CompiledChange => {
    const set = nodesOf(nodes);
    const captured = new Set(set.selector.pattern.captures.keys());
    if (action === "insert") return { nodes: set, action, layer: compileNewLayer(template, captured, fail) };
    return { nodes: set, action, fits: layerTest(template, captured, fail) };
  });
  return (source, work) => ({ ...applyChanges(source, compiled, work), extraInputs: new Set() });
}

function slice(
  { derived, input, output }: Slice,
  nodesOf: NodesOf,
  fail: FailAt,
): CompiledDerivation["change"] {
  const checked = ({ variable, side, nodes }: Cut, wanted: Cut["side"]): NodeSet => {
    if (variable.name !== derived.name) fail(variable.at, `a slice sets ${derived.name}.${wanted}`);
    if (side !== wanted) fail(variable.at, `${derived.name}.input comes first, then ${derived.name}.output`);
    return nodesOf(nodes);
  };
  const ends = { input: checked(input, "input"), output: checked(output, "output") };
  return (source, work) => cutSlice(source, ends, work);
}

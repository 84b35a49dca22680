/**
 * Checks a parsed query and makes functions of its conditions. Three values: a condition on what is not known of a
 * version, such as the layers of one without a network, is neither true nor false, and selects nothing. Pure.
 */
import { compileComparison } from "./comparisons.js";
import type { CompiledCondition, CompiledSelect, Dependency, Untitled } from "./compiled-query.js";
import { compileHas } from "./layer-conditions.js";
import type { Scope, Truth } from "./operands.js";
import { failIn } from "./query-errors.js";
import { SavedQueries } from "./saved-queries.js";
import type { Condition, Lineage, Select, Within } from "./syntax.js";

const maxVariables = 4;

/** @throws QUERY_INVALID */
export function compileSelect(
  select: Select,
  text: string,
  saved: SavedQueries = new SavedQueries(),
): CompiledSelect {
  const fail = failIn(text);
  const variables = select.variables.map(({ name }) => name);
  for (const [index, { name, at }] of select.variables.entries()) {
    if (variables.indexOf(name) !== index) fail(at, `${name} is selected twice`);
    if (index >= maxVariables) fail(at, `more than ${maxVariables} variables are selected`);
  }
  const dependencies: Dependency[] = [];
  const scope: CompileScope = {
    text,
    fail,
    saved,
    dependencies,
    indexOf: ({ name, at }) => {
      const index = variables.indexOf(name);
      return index < 0
        ? fail(at, `${name.slice(0, 40)} is not selected; the query selects ${variables.join(", ")}`)
        : index;
    },
  };
  return {
    variables,
    source: select.source === null ? undefined : compileSource(select.source, scope),
    conditions: conjunctsOf(select.where).map((condition) => compileCondition(condition, scope)),
    dependencies,
  };
}

interface CompileScope extends Scope {
  readonly text: string;
  readonly saved: SavedQueries;
  readonly dependencies: Dependency[];
}

function compileSource(source: NonNullable<Select["source"]>, scope: CompileScope): CompiledSelect {
  if (source.kind === "select") return compileNested(source, scope);
  return scope.saved.use(source, scope.fail, (models, text) => {
    const fail = failIn(text);
    if (models.kind !== "select")
      return fail(0, "it derives models, and here one is needed that selects some");
    return compileNested(models, { ...scope, text, fail });
  });
}

function compileNested(
  select: Select,
  { text, fail, saved }: Pick<CompileScope, "text" | "fail" | "saved">,
): CompiledSelect {
  const second = select.variables[1];
  if (second !== undefined) fail(second.at, "a nested query selects one variable");
  return compileSelect(select, text, saved);
}

/** The conditions that are all to be true. */
export function conjunctsOf(condition: Condition | null): readonly Condition[] {
  if (condition === null) return [];
  return condition.kind === "and" ? condition.of.flatMap(conjunctsOf) : [condition];
}

function compileCondition(condition: Condition, scope: CompileScope): CompiledCondition {
  switch (condition.kind) {
    case "and":
    case "or":
      return combined(
        condition.kind,
        condition.of.map((each) => compileCondition(each, scope)),
      );
    case "not": {
      const { variables, needs, test, text } = compileCondition(condition.of, scope);
      const inverse = (truth: Truth): Truth => (truth === undefined ? undefined : !truth);
      return { variables, needs, text: `not (${text})`, test: (...given) => inverse(test(...given)) };
    }
    case "has":
      return { ...compileHas(condition, scope), text: textOf(condition, scope) };
    case "lineage":
      return { ...compileLineage(condition, scope), text: textOf(condition, scope) };
    case "within":
      return { ...compileWithin(condition, scope), text: textOf(condition, scope) };
    default:
      return { ...compileComparison(condition, scope), text: textOf(condition, scope) };
  }
}

function textOf({ at, end }: { readonly at: number; readonly end: number }, { text }: CompileScope): string {
  return text.slice(at, end).replace(/\s+/g, " ").slice(0, 200);
}

/** Conditions that are all to be true, or of which one is to be. */
export function combined(kind: "and" | "or", of: readonly CompiledCondition[]): CompiledCondition {
  const decides = kind === "or";
  return {
    variables: new Set(of.flatMap(({ variables }) => [...variables])),
    needs: of.flatMap(({ needs }) => needs),
    text: of.map(({ text }) => text).join(` ${kind} `),
    test: (binding, work) => {
      let truth: Truth = !decides;
      for (const { test } of of) {
        const one = test(binding, work);
        if (one === decides) return decides;
        if (one === undefined) truth = undefined;
      }
      return truth;
    },
  };
}

function compileLineage({ variable, relation, other }: Lineage, scope: CompileScope): Untitled {
  const index = scope.indexOf(variable);
  if ("kind" in other) {
    const of = { relation, reference: String(other.value), at: other.at };
    return amongIds(index, dependencyOn(of, scope));
  }
  const second = scope.indexOf(other);
  if (second === index) scope.fail(other.at, "a version is not related to itself");
  return {
    variables: new Set([index, second]),
    needs: [],
    join: { kind: "lineage", variable: index, relation, other: second },
    test: (binding, work) => {
      const [a, b] = [binding[index], binding[second]];
      return a && b && work.isRelated(a.row.versionId, relation, b.row.versionId);
    },
  };
}

function compileWithin({ variable, query }: Within, scope: CompileScope): Untitled {
  return amongIds(scope.indexOf(variable), dependencyOn(compileNested(query, scope), scope));
}

function dependencyOn(of: Dependency["of"], { dependencies }: CompileScope): Dependency {
  const dependency: Dependency = { of, ids: new Set() };
  dependencies.push(dependency);
  return dependency;
}

function amongIds(variable: number, dependency: Dependency): Untitled {
  return {
    variables: new Set([variable]),
    needs: [],
    filter: () => ({ ids: dependency.ids }),
    test: (binding) => binding[variable] && dependency.ids.has(binding[variable].row.versionId),
  };
}

/** Makes functions of comparisons: operators, `like`, lists and `is known`. Pure. */
import type { RowFilter } from "../../storage/repository/row-keeper.js";
import type { Value } from "./attributes.js";
import type { JoinPath, Untitled } from "./compiled-query.js";
import {
  compareValues,
  compileOperand,
  fitting,
  type CompiledOperand,
  type Scope,
  type Truth,
} from "./operands.js";
import { likePattern, matchOf, prefixOf } from "./patterns.js";
import type { Comparison, Operand, Operator } from "./syntax.js";

export function compileComparison(comparison: Comparison, scope: Scope): Untitled {
  const left = compileOperand(comparison.left, scope);
  switch (comparison.kind) {
    case "compare":
      return compileCompare(comparison, left, scope);
    case "listed": {
      const values = comparison.values.map((value) => fitting(compileOperand(value, scope), left, scope));
      const wanted = new Set(values.map((value) => value.valueOf([])));
      return conditionOf([left], (value) => wanted.has(value));
    }
    case "known":
      return {
        ...conditionOf([left], () => undefined),
        test: (binding) => {
          const value = left.valueOf(binding);
          return (Array.isArray(value) ? value.length > 0 : value !== undefined) === comparison.isKnown;
        },
      };
    case "like": {
      if (left.type !== undefined && left.type !== "text")
        scope.fail(left.at, `this is a ${left.type}, and like compares texts`);
      const pattern = likePattern(String(comparison.pattern.value), (reason) =>
        scope.fail(comparison.pattern.at, reason),
      );
      const prefix = prefixOf(pattern);
      const filter = isAttribute(comparison.left, "name") && {
        filter: (): RowFilter => ({ namePrefix: prefix }),
      };
      return {
        ...conditionOf([left], (value) =>
          typeof value === "string" ? matchOf(pattern, value) !== undefined : undefined,
        ),
        ...filter,
      };
    }
  }
}

function compileCompare(
  { left: written, operator, right: other }: Extract<Comparison, { readonly kind: "compare" }>,
  compiled: CompiledOperand,
  scope: Scope,
): Untitled {
  const second = compileOperand(other, scope);
  const [left, right] = [fitting(compiled, second, scope), fitting(second, compiled, scope)];
  if (left.type === "truth value" && operator !== "=" && operator !== "!=")
    scope.fail(left.at, "truth values are compared with = and !=");
  // A list differs from a value where none of its members is equal.
  const isInverse = operator === "!=" && (left.isList || right.isList);
  const join = joinOf(left, right, operator);
  const filter = right.need === undefined ? filterOf(written, operator, right.valueOf([])) : undefined;
  return {
    ...conditionOf([left, right], (a, b) => compareValues(a, b, isInverse ? "=" : operator), isInverse),
    ...(join && { join }),
    ...(filter && { filter: () => filter }),
  };
}

/** Tests all values of lists, and holds where one of them does; `isInverse`: where none does. */
function conditionOf(
  operands: readonly CompiledOperand[],
  test: (a: Value, b: Value) => Truth,
  isInverse = false,
): Untitled {
  const [left, right] = operands as [CompiledOperand, CompiledOperand?];
  const needs = operands.flatMap(({ need }) => (need === undefined ? [] : [need]));
  const hasLists = operands.some(({ isList }) => isList);
  return {
    variables: new Set(needs.map(({ variable }) => variable)),
    needs,
    test: (binding) => {
      const a = left.valueOf(binding);
      const b = right === undefined ? true : right.valueOf(binding);
      if (a === undefined || b === undefined) return undefined;
      if (!hasLists) return test(a as Value, b as Value);
      return listOf(a).some((one) => listOf(b).some((other) => test(one, other) === true)) !== isInverse;
    },
  };
}

function listOf(value: Value | readonly string[]): readonly Value[] {
  return Array.isArray(value) ? (value as readonly string[]) : [value as Value];
}

function joinOf(left: CompiledOperand, right: CompiledOperand, operator: Operator): JoinPath | undefined {
  if (operator !== "=" || left.isList || right.isList || !left.need || !right.need) return undefined;
  return left.need.variable === right.need.variable ? undefined : { kind: "equal", sides: [left, right] };
}

function isAttribute(operand: Operand, name: string): boolean {
  return operand.kind === "attribute" && operand.path.join(".") === name && operand.member === undefined;
}

/** A filter that finds the versions which a comparison with a written value selects, or some more. */
function filterOf(left: Operand, operator: Operator, value: unknown): RowFilter | undefined {
  if (operator === "=" && isAttribute(left, "name")) return { name: String(value) };
  if (operator === "=" && isAttribute(left, "device")) return { device: String(value) };
  const isAfter = operator === ">" || operator === ">=" || operator === "=";
  if (isAfter && isAttribute(left, "recorded_time")) return { recordedFromMs: Number(value) };
  return undefined;
}

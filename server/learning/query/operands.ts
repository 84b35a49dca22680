/** Makes functions of what a query compares: attributes, figures and written values. Pure. */
import { attributes, configAttribute, type Value, type ValueType } from "./attributes.js";
import type { FailAt } from "./query-errors.js";
import type { Candidate, Facet } from "./query-source.js";
import type { AttributeOperand, Literal, MetricOperand, Operand, Operator, Variable } from "./syntax.js";

/** The versions that the variables stand for, in the order in which the query names the variables. */
export type Binding = readonly Candidate[];
/** The truth of a condition; undefined where it is not known. */
export type Truth = boolean | undefined;

export interface Scope {
  readonly fail: FailAt;
  /** The index of a variable. @throws QUERY_INVALID */
  readonly indexOf: (variable: Variable) => number;
}

/** A facet that has to be loaded of the version that a variable stands for. */
export interface Need {
  readonly variable: number;
  readonly facet: Facet | undefined;
}

export interface CompiledOperand {
  /** The type; undefined where each version may have another one. */
  readonly type: ValueType | undefined;
  /** The need; undefined for a written value. */
  readonly need: Need | undefined;
  /** True if its value may be a list. */
  readonly isList: boolean;
  readonly at: number;
  readonly valueOf: (binding: Binding) => Value | readonly string[] | undefined;
}

export function compileOperand(operand: Operand, scope: Scope): CompiledOperand {
  if (operand.kind === "attribute") return compileAttribute(operand, scope);
  return operand.kind === "metric" ? compileMetric(operand, scope) : written(operand);
}

function written({ value, at }: Literal): CompiledOperand {
  const type = typeof value === "boolean" ? "truth value" : typeof value === "number" ? "number" : "text";
  return { type, need: undefined, isList: false, at, valueOf: () => value };
}

function compileAttribute({ variable, path, member, at }: AttributeOperand, scope: Scope): CompiledOperand {
  const index = scope.indexOf(variable);
  const [first = "", ...rest] = path;
  const names = [...rest, ...(member === undefined ? [] : [member])];
  if (first === configAttribute) {
    if (names.length === 0)
      scope.fail(at, 'a hyper-parameter has a name: m.config.lr, or m.config["a name"]');
    const key = names.join(".");
    return {
      type: undefined,
      need: { variable: index, facet: "metadata" },
      isList: false,
      at,
      valueOf: (binding) => ownMember(binding[index]?.metadata, key),
    };
  }
  const attribute = Object.hasOwn(attributes, first) ? attributes[first] : undefined;
  if (attribute === undefined || names.length > 0)
    return scope.fail(
      at,
      `${[...path, ...names].join(".").slice(0, 60)} is not an attribute; there are ` +
        `${Object.keys(attributes).join(", ")} and ${configAttribute}.NAME`,
    );
  const { type, facet, value } = attribute;
  return {
    type,
    need: { variable: index, facet },
    isList: first === "tag" || first === "file",
    at,
    valueOf: (binding) => value(binding[index] as Candidate),
  };
}

function ownMember(members: Candidate["metadata"], key: string): Value | undefined {
  return members !== undefined && Object.hasOwn(members, key) ? members[key] : undefined;
}

/** A figure at an iteration is what was measured at this very one. */
function compileMetric({ variable, name, iteration, at }: MetricOperand, scope: Scope): CompiledOperand {
  const index = scope.indexOf(variable);
  return {
    type: "number",
    need: { variable: index, facet: "courses" },
    isList: false,
    at,
    valueOf: (binding) => {
      const course = binding[index]?.courses?.get(String(name.value));
      if (course === undefined) return undefined;
      const place =
        iteration === undefined ? course.values.length - 1 : course.iterations.lastIndexOf(iteration);
      return course.values[place] ?? undefined;
    },
  };
}

/** The operand with which another one is compared: a text that is compared with a time is one. */
export function fitting(operand: CompiledOperand, other: CompiledOperand, { fail }: Scope): CompiledOperand {
  if (operand.type === undefined || other.type === undefined || operand.type === other.type) return operand;
  const isWrittenTime = (one: CompiledOperand, two: CompiledOperand): boolean =>
    one.need === undefined && one.type === "text" && two.type === "time";
  if (isWrittenTime(other, operand)) return operand;
  if (!isWrittenTime(operand, other))
    return fail(operand.at, `this is a ${operand.type}, and it is compared with a ${other.type}`);
  const text = String(operand.valueOf([]));
  const timeMs = timeOf(text);
  if (timeMs === undefined)
    return fail(operand.at, 'this is not a time; write "2026-11-22" or "2026-11-22T09:30:00Z"');
  return { ...operand, type: "time", valueOf: () => timeMs };
}

/** Milliseconds of a time in UTC, unless it names another zone. */
function timeOf(text: string): number | undefined {
  const [, day, time = "00:00", zone = "Z"] =
    /^(\d{4}-\d\d-\d\d)(?:[T ](\d\d:\d\d(?::\d\d(?:\.\d{1,3})?)?))?(Z|[+-]\d\d:\d\d)?$/.exec(text) ?? [];
  const timeMs = day === undefined ? NaN : Date.parse(`${day}T${time}${zone}`);
  return Number.isNaN(timeMs) ? undefined : timeMs;
}

/** Values of different types are not comparable, so nothing is known. */
export function compareValues(a: Value, b: Value, operator: Operator): Truth {
  if (typeof a !== typeof b) return undefined;
  switch (operator) {
    case "=":
      return a === b;
    case "!=":
      return a !== b;
    case "<":
      return a < b;
    case "<=":
      return a <= b;
    case ">":
      return a > b;
    case ">=":
      return a >= b;
  }
}

/**
 * The tree that the parser makes of a query (docs/dql.md). Types only; `at` is where something begins in its text, and
 * `end` where a condition ends.
 */

interface Placed {
  readonly at: number;
  readonly end: number;
}

export interface Variable {
  readonly name: string;
  readonly at: number;
}

/** A text, number or truth value that is written in the query. */
export interface Literal {
  readonly kind: "literal";
  readonly value: string | number | boolean;
  readonly at: number;
}

export interface AttributeOperand {
  readonly kind: "attribute";
  readonly variable: Variable;
  /** The names after the points: ["config", "optimizer", "lr"]. */
  readonly path: readonly string[];
  /** The name in brackets after them. */
  readonly member?: string;
  readonly at: number;
}

/** A figure that a training measured; without iteration the last one. */
export interface MetricOperand {
  readonly kind: "metric";
  readonly variable: Variable;
  readonly name: Literal;
  readonly iteration?: number;
  readonly at: number;
}

export type Operand = Literal | AttributeOperand | MetricOperand;
export type Operator = "=" | "!=" | "<" | "<=" | ">" | ">=";
export type Relation = "parent" | "child" | "ancestor" | "descendant";
export type Hop = "next" | "prev";

/** The layers that a selector finds, and those that so many steps lead to. */
export interface Nodes {
  readonly variable: Variable;
  readonly selector: Literal;
  readonly hops: readonly Hop[];
}

type Member = Literal["value"] | readonly Literal["value"][];
/** A written value, a list of them, or the layer that a wrapper holds. */
export type SettingValue = Literal["value"] | readonly Member[] | Template;

/** A kind or a name. */
export interface TextArgument {
  readonly setting?: undefined;
  readonly value: string;
  readonly at: number;
}
export type TemplateArgument =
  TextArgument | { readonly setting: string; readonly value: SettingValue; readonly at: number };

/** A layer as a condition describes it, or as it is to be made: POOL("MAX"). */
export interface Template {
  readonly name: string;
  readonly args: readonly TemplateArgument[];
  readonly at: number;
}

interface Compared extends Placed {
  readonly left: Operand;
}

export type Comparison = Compared &
  (
    | { readonly kind: "compare"; readonly operator: Operator; readonly right: Operand }
    | { readonly kind: "like"; readonly pattern: Literal }
    | { readonly kind: "listed"; readonly values: readonly Literal[] }
    | { readonly kind: "known"; readonly isKnown: boolean }
  );

export interface Lineage extends Placed {
  readonly kind: "lineage";
  readonly variable: Variable;
  readonly relation: Relation;
  /** Another variable, or a reference to a version. */
  readonly other: Variable | Literal;
}

export interface Has extends Placed {
  readonly kind: "has";
  readonly nodes: Nodes;
  readonly template: Template;
}

/** The variable's version is among those that another query selects. */
export interface Within extends Placed {
  readonly kind: "within";
  readonly variable: Variable;
  readonly query: Select;
}

export type Condition =
  | Comparison
  | Lineage
  | Has
  | Within
  | { readonly kind: "and" | "or"; readonly of: readonly Condition[] }
  | { readonly kind: "not"; readonly of: Condition };

export interface Select {
  readonly kind: "select";
  readonly variables: readonly Variable[];
  /** The query whose versions the variables stand for, or the name of a saved one; null: all versions. */
  readonly source: Select | Literal | null;
  readonly where: Condition | null;
  readonly at: number;
}

/** Layers that get new ones behind them, or that lose some that follow them. */
export interface Change {
  readonly nodes: Nodes;
  readonly action: "insert" | "delete";
  readonly template: Template;
}

/** One side of a slice: m2.input = m1["conv1"]. */
export interface Cut {
  readonly variable: Variable;
  readonly side: "input" | "output";
  readonly nodes: Nodes;
}

interface Deriving {
  /** The variable that stands for the derived models. */
  readonly derived: Variable;
  /** The variable that stands for the versions that they are made of. */
  readonly source: Variable;
  readonly where: Condition | null;
}

export interface Construct extends Deriving {
  readonly kind: "construct";
  readonly changes: readonly Change[];
}

export interface Slice extends Deriving {
  readonly kind: "slice";
  readonly input: Cut;
  readonly output: Cut;
}

/** A query that finds or makes models. */
export type Models = Select | Construct | Slice;

/** A setting that candidates differ in: config.base_lr, or config.net["conv*"].lr of some layers. */
export interface Dimension extends Placed {
  readonly path: string;
  readonly layers?: Literal;
  readonly member?: string;
  /** The values that are written, or `auto`: the setting's own, or so many that are drawn. */
  readonly values: readonly Literal[] | { readonly random?: number; readonly at: number };
}

/** The candidates that are kept: those with the best figures, or with good ones. */
export type KeepRule = Placed & {
  readonly variable: Variable;
  readonly figure: Literal;
  /** The number of training steps after which the figure counts; absent: when the training has ended. */
  readonly iteration?: number;
} & ({ readonly kind: "top"; readonly count: number } | { readonly kind: "above"; readonly bound: Literal });

export interface Evaluate {
  readonly kind: "evaluate";
  readonly variable: Variable;
  /** The query for the models, or the name of a saved one. */
  readonly models: Models | Literal;
  /** The file of the configuration. */
  readonly config: Literal;
  readonly vary: readonly Dimension[];
  readonly rule: KeepRule;
  /** True if the worse half is ruled out again and again, the earlier the worse. */
  readonly isHalving: boolean;
}

export type Statement = Models | Evaluate;

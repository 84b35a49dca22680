// What a mutant changes: each operator gets a node of the syntax tree and returns edits of the source's text. The kind
// of an edit is what reports call it.
import ts from "typescript";

const { SyntaxKind } = ts;

/** An edit that replaces a node. */
const replace = (kind, node, text) => ({ kind, start: node.getStart(), end: node.end, text });

const exchangedTokens = new Map([
  [SyntaxKind.LessThanToken, ["comparison", "<="]],
  [SyntaxKind.LessThanEqualsToken, ["comparison", "<"]],
  [SyntaxKind.GreaterThanToken, ["comparison", ">="]],
  [SyntaxKind.GreaterThanEqualsToken, ["comparison", ">"]],
  [SyntaxKind.EqualsEqualsEqualsToken, ["comparison", "!=="]],
  [SyntaxKind.ExclamationEqualsEqualsToken, ["comparison", "==="]],
  [SyntaxKind.AmpersandAmpersandToken, ["logic", "||"]],
  [SyntaxKind.BarBarToken, ["logic", "&&"]],
  [SyntaxKind.PlusToken, ["arithmetic", "-"]],
  [SyntaxKind.MinusToken, ["arithmetic", "+"]],
  [SyntaxKind.AsteriskToken, ["arithmetic", "/"]],
  [SyntaxKind.SlashToken, ["arithmetic", "*"]],
  [SyntaxKind.PlusEqualsToken, ["arithmetic", "-="]],
  [SyntaxKind.MinusEqualsToken, ["arithmetic", "+="]],
]);
const equalities = [SyntaxKind.EqualsEqualsEqualsToken, SyntaxKind.ExclamationEqualsEqualsToken];
const comparisons = [
  ...equalities,
  SyntaxKind.LessThanToken,
  SyntaxKind.LessThanEqualsToken,
  SyntaxKind.GreaterThanToken,
  SyntaxKind.GreaterThanEqualsToken,
];

const isText = (node) => ts.isStringLiteralLike(node) || ts.isTemplateExpression(node);
const isNegation = (node) =>
  ts.isPrefixUnaryExpression(node) && node.operator === SyntaxKind.ExclamationToken;
const isEquality = (node) => ts.isBinaryExpression(node) && equalities.includes(node.operatorToken.kind);
const isBoolean = ({ kind }) => kind === SyntaxKind.TrueKeyword || kind === SyntaxKind.FalseKeyword;

/** Comparisons, && and ||, + and -, each exchanged for its neighbour; in brackets, so that only it changes. */
function exchangedOperator(node) {
  if (!ts.isBinaryExpression(node)) return [];
  const { left, operatorToken, right } = node;
  const exchange = exchangedTokens.get(operatorToken.kind);
  if (exchange === undefined) return [];
  const [kind, text] = exchange;
  if (kind === "arithmetic" && (isText(left) || isText(right))) return [];
  const isAssignment = text.endsWith("=") && kind === "arithmetic";
  const whole = `${left.getText()} ${text} ${right.getText()}`;
  return [replace(kind, node, isAssignment ? whole : `(${whole})`)];
}

/** `??` without its right side, and always its right side. */
function coalescing(node) {
  if (!ts.isBinaryExpression(node) || node.operatorToken.kind !== SyntaxKind.QuestionQuestionToken) return [];
  return [node.left, node.right].map((side) => replace("default", node, `(${side.getText()})`));
}

function defaultValue(node) {
  if (!ts.isParameter(node) && !ts.isBindingElement(node)) return [];
  const { initializer } = node;
  if (initializer === undefined || isBoolean(initializer) || ts.isNumericLiteral(initializer)) return [];
  return [replace("default", initializer, "undefined")];
}

function conditionOf(node) {
  if (ts.isIfStatement(node) || ts.isWhileStatement(node) || ts.isDoStatement(node)) return node.expression;
  return ts.isForStatement(node) || ts.isConditionalExpression(node) ? node.condition : undefined;
}

/** A condition is negated where no other operator does just that. */
function negatedCondition(node) {
  const condition = conditionOf(node);
  if (condition === undefined || isNegation(condition) || isEquality(condition) || isBoolean(condition))
    return [];
  return [replace("condition", condition, `!(${condition.getText()})`)];
}

const leaves = (statement) =>
  ts.isBlock(statement)
    ? statement.statements.length === 1 && leaves(statement.statements[0])
    : ts.isThrowStatement(statement) ||
      ts.isReturnStatement(statement) ||
      ts.isContinueStatement(statement) ||
      ts.isBreakStatement(statement);

/** A guard: an `if` that only leaves. Without it, what it kept out goes on. */
function removedGuard(node) {
  if (!ts.isIfStatement(node) || node.elseStatement !== undefined || !leaves(node.thenStatement)) return [];
  return [replace("guard", node.expression, "false")];
}

function removedNegation(node) {
  return isNegation(node) ? [replace("condition", node, node.operand.getText())] : [];
}

const deciders = new Set(["filter", "some", "every", "find", "findIndex", "findLast", "findLastIndex"]);

/** What a callback of `filter`, `some` and their like answers, where no comparison in it is exchanged. */
function negatedCallback(node) {
  if (!ts.isArrowFunction(node) || ts.isBlock(node.body) || !ts.isCallExpression(node.parent)) return [];
  const { expression: called } = node.parent;
  const decides = ts.isPropertyAccessExpression(called) && deciders.has(called.name.text);
  if (!decides || isNegation(node.body) || isEquality(node.body)) return [];
  return [replace("condition", node.body, `!(${node.body.getText()})`)];
}

const textDeciders = new Set(["has", "get", "includes", "startsWith", "endsWith"]);

/** Whether a short text is compared, chosen or returned, so that it decides. */
function textDecides(node) {
  const { parent } = node;
  if (isEquality(parent)) return ![parent.left, parent.right].some(ts.isTypeOfExpression);
  if (ts.isCallExpression(parent))
    return ts.isPropertyAccessExpression(parent.expression) && textDeciders.has(parent.expression.name.text);
  return (
    ts.isCaseClause(parent) ||
    ts.isArrayLiteralExpression(parent) ||
    (ts.isPropertyAssignment(parent) && parent.initializer === node) ||
    (ts.isConditionalExpression(parent) && parent.condition !== node) ||
    ts.isReturnStatement(parent) ||
    ts.isArrowFunction(parent)
  );
}

/** Numbers one higher, and one lower where they are compared; booleans turned round; short texts that decide. */
function changedLiteral(node) {
  if (isBoolean(node)) return [replace("literal", node, node.getText() === "true" ? "false" : "true")];
  if (ts.isStringLiteral(node) && /^[\w.-]+$/.test(node.text) && textDecides(node))
    return [replace("literal", node, JSON.stringify(`${node.text}-other`))];
  if (!ts.isNumericLiteral(node)) return [];
  const isName =
    (ts.isPropertyAssignment(node.parent) || ts.isPropertyDeclaration(node.parent)) &&
    node.parent.name === node;
  if (isName) return [];
  const more = replace("literal", node, `(${node.getText()} + 1)`);
  const isCompared =
    ts.isBinaryExpression(node.parent) && comparisons.includes(node.parent.operatorToken.kind);
  return isCompared ? [more, replace("literal", node, `(${node.getText()} - 1)`)] : [more];
}

const exchangedNames = new Map([
  ["some", "every"],
  ["every", "some"],
  ["min", "max"],
  ["max", "min"],
  ["floor", "ceil"],
  ["ceil", "floor"],
  ["startsWith", "endsWith"],
  ["endsWith", "startsWith"],
]);

function exchangedCall(node) {
  if (!ts.isCallExpression(node) || !ts.isPropertyAccessExpression(node.expression)) return [];
  const { name } = node.expression;
  const other = exchangedNames.get(name.text);
  return other === undefined ? [] : [replace("call", name, other)];
}

/** A statement that only calls does nothing. */
function removedCall(node) {
  if (!ts.isExpressionStatement(node)) return [];
  let { expression } = node;
  while (ts.isAwaitExpression(expression) || ts.isVoidExpression(expression))
    expression = expression.expression;
  if (!ts.isCallExpression(expression) || expression.expression.kind === SyntaxKind.SuperKeyword) return [];
  return [replace("statement", node, ";")];
}

const functionAround = (node) => {
  let at = node.parent;
  while (at !== undefined && !ts.isFunctionLike(at)) at = at.parent;
  return at;
};

/** The type that a function's `return` gives: of an async function, what its promise gives. */
function returnedType(declaration) {
  const type = declaration?.type;
  const isPromise =
    type !== undefined && ts.isTypeReferenceNode(type) && type.typeName.getText() === "Promise";
  return isPromise ? type.typeArguments?.[0] : type;
}

const emptyCollections = new Map([
  ["Set", "new Set()"],
  ["ReadonlySet", "new Set()"],
  ["Map", "new Map()"],
  ["ReadonlyMap", "new Map()"],
]);

const isUndefinedType = ({ kind }) => kind === SyntaxKind.UndefinedKeyword;

/** The opposite of a returned value, or an empty one of its type; undefined: there is none that a program could give. */
function otherValue(type, value) {
  const text = value.getText();
  if (type === undefined || text === "undefined" || isBoolean(value)) return undefined;
  const isArray =
    ts.isArrayTypeNode(type) ||
    (ts.isTypeOperatorNode(type) && ts.isArrayTypeNode(type.type)) ||
    (ts.isTypeReferenceNode(type) && type.typeName.getText() === "ReadonlyArray");
  if (isArray) return text === "[]" ? undefined : "[]";
  if (type.kind === SyntaxKind.BooleanKeyword || (ts.isTypePredicateNode(type) && type.type !== undefined))
    return isNegation(value) || isEquality(value) ? undefined : `!(${text})`;
  if (type.kind === SyntaxKind.NumberKeyword)
    return ts.isNumericLiteral(value) ? undefined : `((${text}) + 1)`;
  if (type.kind === SyntaxKind.StringKeyword) return text === '""' ? undefined : '""';
  if (ts.isUnionTypeNode(type) && type.types.some(isUndefinedType)) return "undefined";
  if (ts.isTypeReferenceNode(type)) return emptyCollections.get(type.typeName.getText());
  return undefined;
}

function changedReturn(node) {
  const isReturn = ts.isReturnStatement(node) && node.expression !== undefined;
  const isBody = ts.isArrowFunction(node) && !ts.isBlock(node.body);
  if (!isReturn && !isBody) return [];
  const value = isReturn ? node.expression : node.body;
  const type = returnedType(isReturn ? functionAround(node) : node);
  if (isReturn && type?.kind === SyntaxKind.VoidKeyword) return [replace("statement", node, "return;")];
  const other = otherValue(type, value);
  return other === undefined ? [] : [replace("return", value, other)];
}

export const operators = [
  exchangedOperator,
  coalescing,
  defaultValue,
  negatedCondition,
  removedGuard,
  removedNegation,
  negatedCallback,
  changedLiteral,
  exchangedCall,
  removedCall,
  changedReturn,
];

/**
 * Reads from a bundle's syntax tree what it imports. A recipe is whole in its one file, so `stemma:recipe` is
 * all that it may name, and only at its top. Nothing of it is run. The interpreter refuses other modules too.
 */
import { parse, type Node } from "acorn";
import { invalidRecipe, recipeModule } from "./bundle.js";

/** @throws RECIPE_INVALID naming the line */
export function requireImports(source: string): void {
  let tree: Node;
  try {
    tree = parse(source, { ecmaVersion: 2023, sourceType: "module", locations: true });
  } catch (cause) {
    throw invalidRecipe(`it cannot be parsed: ${(cause as Error).message}`, cause);
  }
  // A list and not recursion, so that deep nesting does not exhaust the stack.
  const waiting: unknown[] = [tree];
  for (let next = waiting.pop(); next !== undefined; next = waiting.pop()) {
    if (typeof next !== "object" || next === null) continue;
    if (!Array.isArray(next)) checkNode(next);
    for (const child of Object.values(next))
      if (typeof child === "object" && child !== null) waiting.push(child);
  }
}

interface SyntaxNode {
  readonly type?: string;
  readonly source?: { readonly value?: unknown } | null;
  readonly loc?: { readonly start: { readonly line: number } };
}

function checkNode({ type, source, loc }: SyntaxNode): void {
  const where = `in line ${loc?.start.line ?? 1}`;
  if (type === "ImportExpression") throw invalidRecipe(`it imports while it runs, ${where}`);
  const isImport =
    type === "ImportDeclaration" || type === "ExportNamedDeclaration" || type === "ExportAllDeclaration";
  if (!isImport || source === null || source === undefined || source.value === recipeModule) return;
  throw invalidRecipe(
    `it imports ${JSON.stringify(String(source.value).slice(0, 80))} ${where}. Only ${recipeModule} can be ` +
      "imported; a bundler such as esbuild puts everything else into the one file",
  );
}

/** The recipe that `recipe init` writes, with the loss and the change of samples of the documented example. */
import assert from "node:assert/strict";
import { scaffold } from "../../shared/train/own-recipes/scaffold.js";
import { readPage } from "./markdown.js";

const [, members = ""] = /```js\n([\s\S]*?)```/.exec(readPage("docs/recipes-of-your-own.md")) ?? [];
assert.match(members, /^loss\([\s\S]*^augment\(/m);

export const recipeWithOwnLoss = scaffold
  .replace("import { Network }", "import { Network, where }")
  .replace('loss: "mean-squared-error",', () => members);

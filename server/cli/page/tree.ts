/** A JSON value as a tree that opens and closes, without a script. Pure. */
import { html, type Markup } from "./markup.js";

const maxMembers = 5000;
const maxDepth = 64;

export function tree(value: unknown): Markup {
  const budget = { left: maxMembers };
  const members = membersOf(value);
  return members === undefined ? html`<p>${textOf(value)}</p>` : branches(members, budget, 0);
}

function branches(members: readonly Member[], budget: { left: number }, depth: number): Markup {
  const shown: Markup[] = [];
  for (const [name, value] of members) {
    if (budget.left-- <= 0) break;
    shown.push(branch(name, value, budget, depth));
  }
  const more = members.length - shown.length;
  return html`<ul class="tree">
    ${shown}${more === 0 ? undefined : html`<li>and ${more} more</li>`}
  </ul>`;
}

function branch(name: string, value: unknown, budget: { left: number }, depth: number): Markup {
  const members = membersOf(value);
  if (members === undefined || members.length === 0 || depth >= maxDepth)
    return html`<li><span class="name">${name}</span> <code>${textOf(value)}</code></li>`;
  return html`<li><details${depth === 0 && members.length <= 12 ? html` open` : undefined}><summary><span class="name">${name}</span> <small>${members.length}</small></summary>${branches(
    members,
    budget,
    depth + 1,
  )}</details></li>`;
}

type Member = readonly [name: string, value: unknown];

function membersOf(value: unknown): readonly Member[] | undefined {
  if (typeof value !== "object" || value === null) return undefined;
  return Array.isArray(value) ? value.map((each, at): Member => [String(at), each]) : Object.entries(value);
}

function textOf(value: unknown): string {
  return typeof value === "string" ? value : (JSON.stringify(value) ?? "-");
}

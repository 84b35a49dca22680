/** The repository's pages: where they are, their code blocks, headings and links. */
import { readdirSync, readFileSync } from "node:fs";
import { join, relative, resolve } from "node:path";
import { fileURLToPath } from "node:url";

export const repositoryRoot = resolve(fileURLToPath(import.meta.url), "../../../..");
const skippedFolders = new Set(["node_modules", "dist", "vectors", ".git", ".build", ".stemma-demo"]);

/** Paths of all Markdown pages, relative to the repository's root, sorted. */
export function markdownPages(): readonly string[] {
  const found: string[] = [];
  const walk = (folder: string): void => {
    for (const entry of readdirSync(folder, { withFileTypes: true })) {
      const path = join(folder, entry.name);
      if (entry.isDirectory() && !skippedFolders.has(entry.name)) walk(path);
      else if (entry.isFile() && entry.name.endsWith(".md")) found.push(relative(repositoryRoot, path));
    }
  };
  walk(repositoryRoot);
  return found.sort();
}

export function readPage(page: string): string {
  return readFileSync(join(repositoryRoot, page), "utf8");
}

export interface CodeBlock {
  /** What follows the opening fence: "sh run", "json file:agent.json". */
  readonly info: string;
  readonly text: string;
}

const fence = /^```(.*)\n([\s\S]*?)^```$/gm;

export function codeBlocksOf(markdown: string): readonly CodeBlock[] {
  return [...markdown.matchAll(fence)].map(([, info = "", text = ""]) => ({ info: info.trim(), text }));
}

function withoutCode(markdown: string): string {
  return markdown.replace(fence, "");
}

/** Anchors of a page's headings, as GitHub makes them. */
export function anchorsOf(markdown: string): ReadonlySet<string> {
  const anchors = new Set<string>();
  for (const [, heading = ""] of withoutCode(markdown).matchAll(/^#{1,6} +(.+?) *$/gm)) {
    const anchor = heading
      .replace(/\[([^\]]*)\]\([^)]*\)/g, "$1")
      .toLowerCase()
      .replace(/[^\p{L}\p{N}\p{M} _-]/gu, "")
      .replaceAll(" ", "-");
    let unique = anchor;
    for (let repeat = 1; anchors.has(unique); repeat++) unique = `${anchor}-${repeat}`;
    anchors.add(unique);
  }
  return anchors;
}

/** Targets of links and pictures outside code. */
export function linksOf(markdown: string): readonly string[] {
  return [
    ...withoutCode(markdown)
      .replace(/`[^`\n]*`/g, "")
      .matchAll(/\]\(([^)\s]+)\)/g),
  ].map(([, target = ""]) => target);
}

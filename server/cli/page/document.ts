/**
 * One HTML document that needs nothing else: no server, no network, no other file. Its policy names its style and its
 * script by their hashes and forbids everything else, so that no text in it can become a program. Pure.
 */
import { createHash } from "node:crypto";
import { formatTime } from "../../../shared/cli/output.js";
import { html, type Markup, type Part } from "./markup.js";
import { pageScript } from "./page-script.js";
import { pageStyle } from "./page-style.js";
import type { Piece } from "./table.js";

export interface Section {
  /** The id of its element, unique in the page. */
  readonly id: string;
  readonly title: string;
  readonly content: Part;
  /** Rules of style that only this section needs. */
  readonly style?: string;
}

export interface PageParts {
  readonly title: string;
  /** The kind of page, above the title. */
  readonly kind: string;
  /** The lines below the title. */
  readonly lead: Part;
  readonly sections: readonly Section[];
  readonly writtenAtMs: number;
}

export function pageDocument({ title, kind, lead, sections, writtenAtMs }: PageParts): string {
  const style = pageStyle + sections.map((section) => section.style ?? "").join("");
  const policy = [
    "default-src 'none'",
    `script-src '${hashOf(pageScript)}'`,
    `style-src '${hashOf(style)}'`,
    "base-uri 'none'",
    "form-action 'none'",
  ].join("; ");
  const body = html`<header>
      <p class="kind">${kind}</p>
      <h1>${title}</h1>
      ${lead}
    </header>
    ${
      sections.length < 2
        ? undefined
        : html`<nav aria-label="Sections">
            <ul>
              ${sections.map((section) => html`<li><a href="#${section.id}">${section.title}</a></li>`)}
            </ul>
          </nav>`
    }
    <main>
      ${sections.map(
        (section) =>
          html`<section id="${section.id}" aria-labelledby="${section.id}-title">
            <h2 id="${section.id}-title">${section.title}</h2>
            ${section.content}
          </section> `,
      )}
    </main>
    <footer>
      <p>
        Written by Stemma at ${formatTime(writtenAtMs)}, as the repository was then. The page is complete: it
        needs no network.
      </p>
    </footer>`;
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="${policy}">
<meta name="referrer" content="no-referrer">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
${html`<title>${title} - Stemma</title>`.toString()}
<style>${style}</style>
</head>
<body>
${body.toString()}
<script>${pageScript}</script>
</body>
</html>
`;
}

/** A section that is a table, or a table with something before it. */
export function sectionOf(id: string, title: string, piece: Piece, before?: Part): Section {
  return { id, title, content: html`${before}${piece.markup}`, style: piece.style };
}

/** Names with their texts; those that stand out are tiles. */
export function definitions(
  facts: readonly (readonly [name: string, value: Part])[],
  form: "list" | "tiles" = "list",
): Markup {
  return html`<dl class="${form}">
    ${facts.map(
      ([name, value]) =>
        html`<div>
          <dt>${name}</dt>
          <dd>${value}</dd>
        </div>`,
    )}
  </dl>`;
}

/** A part that is closed at first. */
export function folded(summary: Part, content: Part): Markup {
  return html`<details class="folded">
    <summary>${summary}</summary>
    ${content}
  </details>`;
}

function hashOf(text: string): string {
  return `sha256-${createHash("sha256").update(text).digest("base64")}`;
}

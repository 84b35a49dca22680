/**
 * A model card as Markdown. Whatever a person, file or device wrote is in a code span, where nothing is markup, a link
 * or HTML (CommonMark, "Code spans"), without characters that are not seen. Pure.
 */
import { printable } from "../../../shared/printable.js";
import type { ModelCard } from "./model-card.js";
import type { Statement } from "./statement.js";

const maxCharacters = 600;
const maxNameCharacters = 120;
/** Statements of one name in a section that are shown; more are counted. */
const maxAlike = 200;

/** A text in one line, cut where it is long, with what is not seen spelled out. */
export function shownText(text: string, max = maxCharacters): string {
  const characters = Array.from(text.slice(0, 2 * max + 2));
  const start = characters.slice(0, max).join("");
  const isCut = start.length < text.length;
  const shown = printable(start).replaceAll("\n", "\\u{a}");
  return isCut ? `${shown} … (${text.length} characters)` : shown;
}

/** A text as a code span. One of backticks has longer fences; a space keeps those at the ends apart from them. */
export function codeSpan(text: string): string {
  if (text === "") return "*empty*";
  const longest = Math.max(0, ...[...text.matchAll(/`+/g)].map(([run]) => run.length));
  const fence = "`".repeat(longest + 1);
  const needsSpace = /^[` ]|[` ]$/.test(text) && /[^ ]/.test(text);
  return needsSpace ? `${fence} ${text} ${fence}` : `${fence}${text}${fence}`;
}

const explanation = [
  "Made from the record of the model alone.",
  "*proved*: a replay made or used the very same.",
  "*recorded*: in the record; nothing made it again.",
  "*stated*: somebody said it.",
  "*stale*: found before something changed.",
].join(" ");

export function cardText({ title, sections }: ModelCard): string {
  const shown = sections.flatMap(({ title: section, statements }) => [
    "",
    `## ${section}`,
    "",
    ...linesOf(statements),
  ]);
  return [`# Model card: ${codeSpan(shownText(title, maxNameCharacters))}`, "", explanation, ...shown].join(
    "\n",
  );
}

function linesOf(statements: readonly Statement[]): readonly string[] {
  const counts = new Map<string, number>();
  for (const { name } of statements) counts.set(name, (counts.get(name) ?? 0) + 1);
  const written = new Map<string, number>();
  return statements.flatMap((each) => {
    const { name } = each;
    const at = (written.get(name) ?? 0) + 1;
    written.set(name, at);
    if (at <= maxAlike) return [lineOf(each)];
    const more = (counts.get(name) ?? 0) - maxAlike;
    return at === maxAlike + 1 ? [`- ${name}: ${more} more (all with -o json)`] : [];
  });
}

function lineOf({ name, of, value, basis, stale }: Statement): string {
  const label = `- ${name}${of === undefined ? "" : ` ${codeSpan(shownText(of, maxNameCharacters))}`}`;
  if (value === null) return `${label}: *${basis}*`;
  const outdated = stale === undefined ? "" : `; *stale*: ${codeSpan(shownText(stale))}`;
  return `${label}: ${codeSpan(shownText(value))} (${basis}${outdated})`;
}

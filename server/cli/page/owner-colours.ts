/** The versions that contributed a network's tensors, each with its colour: those of most bytes come first. Pure. */
import { formatBytes } from "../../../shared/cli/output.js";
import type { Described } from "../repository/current-version.js";
import { nameOf } from "../version-text.js";
import { hueClass, hues } from "./lanes.js";
import { html, type Markup } from "./markup.js";

type Leaf = Described["leaves"][number];

export interface Owner {
  readonly versionId: string;
  readonly name: string;
  readonly bytes: number;
  readonly tensors: number;
  /** The last colour is that of all further ones together. */
  readonly hue: number;
}

export function ownersOf(leaves: readonly Leaf[]): ReadonlyMap<string, Owner> {
  const found = new Map<string, Omit<Owner, "hue">>();
  for (const { owner, bytes } of leaves) {
    const known = found.get(owner.versionId);
    found.set(owner.versionId, {
      versionId: owner.versionId,
      name: nameOf(owner),
      bytes: (known?.bytes ?? 0) + bytes,
      tensors: (known?.tensors ?? 0) + 1,
    });
  }
  const sorted = [...found.values()].sort((a, b) => b.bytes - a.bytes);
  return new Map(sorted.map((owner, at) => [owner.versionId, { ...owner, hue: Math.min(at, hues - 1) }]));
}

export function chip({ name, hue }: Pick<Owner, "name" | "hue">): Markup {
  return html`<span class="chip ${hueClass(hue)}">${name}</span>`;
}

const maxNamed = 40;

/** A bar of shares with its legend. */
export function ownerShares(owners: ReadonlyMap<string, Owner>): Markup | undefined {
  const all = [...owners.values()];
  const total = all.reduce((sum, { bytes }) => sum + bytes, 0);
  if (total === 0) return undefined;
  let done = 0;
  const parts = all.map(({ bytes, hue }) => {
    const part = html`<rect
      class="${hueClass(hue)}"
      x="${percent(done / total)}"
      width="${percent(bytes / total)}"
      height="100%"
    />`;
    done += bytes;
    return part;
  });
  const more = all.length - maxNamed;
  return html`<svg class="bar share" aria-hidden="true">${parts}</svg>
    <ul class="legend">
      ${all.slice(0, maxNamed).map(
        (owner) =>
          html`<li>
            ${chip(owner)}
            <span class="soft"
              >${percent(owner.bytes / total, 1)}, ${owner.tensors}
              ${owner.tensors === 1 ? "tensor" : "tensors"}, ${formatBytes(owner.bytes)}</span
            >
          </li>`,
      )}${more > 0 ? html`<li>and ${more} more</li>` : undefined}
    </ul>`;
}

/** A bar below a figure: its share of the greatest. */
export function bar(value: number | null, most: number): Markup | undefined {
  if (value === null || most <= 0) return undefined;
  return html`<svg class="bar hue-0" aria-hidden="true">
    <rect width="${percent(value / most)}" height="100%" />
  </svg>`;
}

const percent = (share: number, digits = 3): string => `${Number((100 * share).toFixed(digits))}%`;

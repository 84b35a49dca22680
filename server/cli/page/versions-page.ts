/** The page of many versions: their lineage in lanes, their figures, their facts. Pure. */
import { pageDocument, sectionOf } from "./document.js";
import { html } from "./markup.js";
import { versionList, type ListedVersion } from "./version-list.js";
import { counted } from "../../../shared/printable.js";

export interface VersionsPage {
  readonly title: string;
  readonly kind: string;
  /** Newest first, each before its bases. */
  readonly versions: readonly ListedVersion[];
  /** The number of versions altogether, with those that are not shown. */
  readonly total: number;
  readonly writtenAtMs: number;
}

export function versionsPage({ title, kind, versions, total, writtenAtMs }: VersionsPage): string {
  const models = new Set(versions.map(({ name }) => name)).size;
  return pageDocument({
    title,
    kind,
    lead: html`<p class="soft">
      ${versions.length < total ? `${versions.length} of ${total} versions` : counted(versions.length, "version")}
      of ${models} ${models === 1 ? "model" : "models"}. Open a version to see its facts; lines lead to those
      in the list that it was trained from.
    </p>`,
    sections: [
      sectionOf(
        "versions-of-list",
        "Versions",
        versionList(versions, { id: "versions", caption: "Newest first", hasFilter: true }),
      ),
    ],
    writtenAtMs,
  });
}

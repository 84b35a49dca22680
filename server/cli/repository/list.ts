/** `stemma list`: versions with what they came from and what was said of them; or the history of a file. */
import type { Column } from "../../../shared/cli/output.js";
import type { VersionSummary } from "../../storage/repository/answers/version-answers.js";
import { newestModels } from "../commands/model/list.js";
import { describeAll } from "../describe-all.js";
import { drawLineage } from "../commands/model/log.js";
import { listed, plain, repeated, type PlainContext, type Printed } from "../plain-command.js";
import { nameOf, savedOf, stateOf } from "../version-text.js";
import { currentOfFolder, detailsOf, type Described } from "./current-version.js";
import { coursesOf, figure } from "./metric-course.js";
import { pageOptions, refuseWithPage, writePage } from "../page/write-page.js";
import { verb } from "./verb.js";

/** Versions that are shown where nobody says how many: each of them is described. */
const shownVersions = 50;

export const define = verb(
  plain("listModels", {
    name: "list",
    options: {
      name: "<name> only versions of this model",
      where: repeated(
        "<condition> only those whose hyper-parameters match: key=value, or <, <=, >, >= (repeatable)",
      ),
      limit: `<n> only the newest n (${shownVersions})`,
      offset: "<n> skip the newest n",
      all: "also retired ones",
      file: "<file> the history of a file: the versions whose file differs from that of the one they came from",
      graph: "draw the family of the model --name, or of the current version",
      ...pageOptions,
    },
    help: `
  stemma list --where lr<=0.1
  stemma list --file train.py          then: stemma desc curve:2 --show train.py
  stemma list --graph
  stemma list --limit 1000 --html models.html
`,
    run: async ({ graph, file, limit, html, force, ...filter }, context) => {
      const { call, output } = context;
      if (html !== undefined) {
        refuseWithPage({ graph, file });
        return await writePage(html, { force }, async () => {
          const { versions, total } = await newestModels(call, { ...filter, limit: limit ?? shownVersions });
          const described = await describeAll(versions, call);
          const { versionsPage } = await import("../page/versions-page.js");
          const { listedVersion } = await import("../page/version-list.js");
          return versionsPage({
            title: filter.name ?? "Models",
            kind: "Model repository",
            versions: described.map(listedVersion).reverse(),
            total,
            writtenAtMs: Date.now(),
          });
        });
      }
      if (graph) {
        const model = filter.name ?? (await currentOfFolder(call));
        await drawLineage(
          await call("lineage", { model, descendants: true, limit, offset: filter.offset }),
          { dot: false, svg: false, offset: filter.offset ?? 0 },
          output,
        );
        return undefined;
      }
      if (file !== undefined) return historyOf(file, (await newestModels(call, filter)).versions, call);
      const page = await newestModels(call, { ...filter, limit: limit ?? shownVersions });
      return await pageOf(page, filter.offset ?? 0, call);
    },
  }),
);

const details = (version: Described): ReturnType<typeof detailsOf> => detailsOf(version.metadata ?? {});
/** A message's first line, as git shows it in a list. */
const subjectOf = (version: Described): string | undefined => details(version).message?.split("\n", 1)[0];

const columns: readonly Column<Described>[] = [
  { title: "VERSION", value: nameOf },
  { title: "ID", value: ({ versionId }) => versionId.slice(0, 8) },
  { title: "FROM", value: ({ bases }) => bases.map(nameOf).join(", ") || "-" },
  { title: "LOSS", value: lastLoss, align: "right" },
  { title: "STATE", value: stateOf },
  { title: "SAVED", value: savedOf },
  { title: "MESSAGE", value: subjectOf },
];

function lastLoss({ measurements = [] }: Described): string | undefined {
  const loss = coursesOf(measurements).find(({ name }) => name === "loss");
  return loss && figure(loss.last.value);
}

async function pageOf(
  { versions, total }: Awaited<ReturnType<typeof newestModels>>,
  offset: number,
  call: PlainContext["call"],
): Promise<Printed> {
  const described = await describeAll(versions, call);
  const next = offset + versions.length;
  return {
    ...listed(described, { nameOf, columns, empty: "no version matches; commit one with: stemma commit" }),
    notes:
      versions.length > 0 && next < total
        ? [
            `stemma: note: ${versions.length} of ${total} versions are shown; older ones follow with --offset ${next}`,
          ]
        : [],
  };
}

interface FileChange {
  readonly version: VersionSummary;
  readonly change: "added" | "changed" | "removed";
  readonly hash: string | undefined;
}

/** Versions are compared with what they came from, not with each other: two lines of work may alternate. */
async function historyOf(
  file: string,
  versions: readonly VersionSummary[],
  call: PlainContext["call"],
): Promise<Printed> {
  const known = new Map(versions.map((version) => [version.versionId, version]));
  const changes: FileChange[] = [];
  for (const version of versions) {
    const [base] = version.record.bases;
    const before =
      base === undefined ? undefined : (known.get(base) ?? (await call("model", { model: base })));
    const [was, is] = [before && hashIn(before, file), hashIn(version, file)];
    if (was === is) continue;
    changes.push({
      version,
      hash: is,
      change: was === undefined ? "added" : is === undefined ? "removed" : "changed",
    });
  }
  const rows = await Promise.all(
    changes.map(async (change) => ({
      ...change,
      version: await call("model", { model: change.version.versionId }),
    })),
  );
  return listed(rows, {
    nameOf: ({ version }) => nameOf(version),
    columns: [
      { title: "VERSION", value: ({ version }) => nameOf(version) },
      { title: "FILE", value: ({ change }) => change },
      { title: "CONTENT", value: ({ hash }) => hash?.slice(0, 12) },
      { title: "SAVED", value: ({ version }) => savedOf(version) },
      { title: "AUTHOR", value: ({ version }) => details(version).author },
      { title: "MESSAGE", value: ({ version }) => subjectOf(version) },
    ],
    empty: `no version has a file ${file}`,
  });
}

function hashIn({ record }: Pick<VersionSummary, "record">, file: string): string | undefined {
  return record.objects.attachments?.find(({ name }) => name === file)?.hash;
}

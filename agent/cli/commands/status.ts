/** `stemma agent status`: the models, link, disk and training of a running agent. */
import type { Command } from "commander";
import { formatBytes, Output } from "../../../shared/cli/output.js";
import { counted } from "../../../shared/printable.js";
import type { AgentStatus, VersionStatus } from "../../status.js";
import { callRunningAgent, commonOptionsOf } from "../common-options.js";

type Row = { readonly line: string } & VersionStatus;

export function addStatus(program: Command): void {
  program
    .command("status")
    .description("show what a running agent has, does and still has to report")
    .action(async (_: unknown, command: Command) => {
      const { home, output } = commonOptionsOf(command);
      const status = (await callRunningAgent(home, "control", { do: "status" })) as AgentStatus;
      const rows = status.lines.flatMap(({ line, versions }) =>
        versions.map((version): Row => ({ line, ...version })),
      );
      new Output(output).print<Row>({
        data: status,
        names: rows.map((row) => row.versionId),
        text: summaryOf(status),
        table: { rows, empty: "no models on this device yet", columns },
      });
    });
}

const maxNamedLosses = 10;

const columns = [
  { title: "LINE", value: (row: Row) => row.line },
  { title: "MODEL", value: (row: Row) => row.name },
  { title: "VERSION", value: (row: Row) => row.versionId.slice(0, 12) },
  {
    title: "STATE",
    value: (row: Row) =>
      (row.origin === "adopted" ? "from server" : row.isClaimed ? "claimed" : row.standing) +
      (row.refusal === undefined ? "" : " (refused)"),
  },
  { title: "RUNS", value: (row: Row) => (row.active ? "yes" : "") },
  {
    title: "METRIC",
    value: (row: Row) =>
      row.metric === null
        ? ""
        : `${row.metric.before.toFixed(2)} → ${row.metric.after.toFixed(2)} ${row.metric.unit}`,
  },
];

/** Describes what a person has to know of the server's history. */
function historyLines({ distrust, lost }: AgentStatus["history"]): readonly string[] {
  const named = lost.slice(-maxNamedLosses).map(({ name, version, versionId }) => {
    return `${name}:${version ?? "?"} (${versionId.slice(0, 12)})`;
  });
  const more = lost.length > named.length ? ` and ${lost.length - named.length} more (--json)` : "";
  return [
    ...(distrust === null
      ? []
      : [`NOT BELIEVED since ${new Date(distrust.atMs).toISOString()}: ${distrust.text}`]),
    ...(lost.length === 0
      ? []
      : [`deleted here, and perhaps lost at the server: ${named.join(", ")}${more}`]),
  ];
}

/** Describes which recipes of the fleet's own are here, and whether this device runs their code. */
function recipeLines(own: AgentStatus["recipes"]): readonly string[] {
  if (own === null) return [];
  const described = own.recipes.map(({ name, recipe, version, refused }) =>
    recipe === null
      ? `${name} (not here yet)`
      : `${name} ${version} (${recipe.slice(0, 12)})${refused === null ? "" : `, not run: ${refused}`}`,
  );
  return [`own recipes, ${own.confinement}: ${described.join("; ")}`];
}

/** Bytes of all versions that the server has not recorded, before what it has already and before coding. */
function toSendBytes(lines: AgentStatus["lines"]): number {
  const pending = new Map<string, number>();
  for (const { versions } of lines)
    for (const { versionId, origin, standing, tensorBytes, usesBytes } of versions)
      if (origin === "trained" && standing === "pending") pending.set(versionId, tensorBytes + usesBytes);
  return [...pending.values()].reduce((sum, bytes) => sum + bytes, 0);
}

/** The lines below the table: connection, disk, training, samples. */
function summaryOf({ fleet, device, link, profile, backend, ...status }: AgentStatus): string {
  const connection =
    link.phase === "open" ? `session ${link.session}` : `offline (${link.lastError || link.phase})`;
  const { usedBytes, budgetBytes } = status.disk;
  const training =
    status.training === null
      ? ""
      : `, ${status.training.line} trains (${status.training.progress?.phase ?? "starting"})`;
  const toSend = toSendBytes(status.lines);
  const unreleased =
    `${status.unreleased} ${status.unreleased === 1 ? "model" : "models"} to ` +
    `report${toSend === 0 ? "" : ` (at most ${formatBytes(toSend)} to send)`}`;
  return [
    `${fleet}/${device}: ${connection}, profile ${profile}, ${backend}`,
    `${unreleased}, ${formatBytes(usedBytes)} of ${formatBytes(budgetBytes)} used${training}`,
    ...historyLines(status.history),
    ...recipeLines(status.recipes),
    ...status.lines.map(({ line, samples, standstill, trial }) => {
      const counts =
        samples === null
          ? "no samples"
          : `${counted(samples.samples, "sample")}, ${samples.heldOut} held out${samples.unfit === 0 ? "" : `, ${samples.unfit} do not fit and are skipped`}`;
      const onTrial =
        trial === null
          ? ""
          : `; on trial: ${trial.versionId.slice(0, 12)}, ${trial.compared} of ${trial.wanted} live inputs`;
      return `${line}: ${counts}${onTrial}${standstill === null ? "" : `; does not train now: ${standstill}`}`;
    }),
  ].join("\n");
}

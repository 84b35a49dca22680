/** A fleet as text: for `fleet status`, and as lines of the live screen, at most as wide as the terminal. Pure. */
import { formatBytes } from "../../../shared/cli/output.js";
import { printable } from "../../../shared/printable.js";
import type { RolloutAnswer } from "../../interface/api/rollouts/rollout-definitions.js";
import { headOfRollout } from "../../fleet/rollout/rollout-text.js";
import { totalRate, type Doing, type FleetView, type ListedDevice } from "./fleet-view.js";

export interface ScreenSize {
  readonly columns: number;
  readonly rows: number;
}

export interface Line {
  readonly text: string;
  readonly style?: "head" | "selected" | "bad" | "faint";
}

const barCells = 20;
/** Models of one line that are named with how many devices run each. */
const maxModels = 5;

export function describeCounts(devices: readonly ListedDevice[]): string {
  const of = (state: ListedDevice["state"]): number => devices.filter((one) => one.state === state).length;
  const counted = [
    [devices.filter(({ online }) => online).length, "online"],
    [of("quarantined"), "quarantined"],
    [of("revoked"), "revoked"],
    [devices.filter(({ doubt }) => doubt !== undefined).length, "doubt this server"],
  ] as const;
  const shown = counted.filter(([count], at) => at === 0 || count > 0);
  return [
    `${devices.length} ${devices.length === 1 ? "device" : "devices"}`,
    ...shown.map(([count, what]) => `${count} ${what}`),
  ].join(", ");
}

/** Describes how many devices run which model, line by line. */
export function describeRuns(devices: readonly ListedDevice[]): readonly string[] {
  const lines = new Map<string, Map<string, number>>();
  for (const { lines: own, runs, state } of devices) {
    if (state === "revoked") continue;
    for (const line of own) {
      const models = lines.get(line) ?? new Map<string, number>();
      lines.set(line, models);
      const model = runs[line] ?? "with no model reported";
      models.set(model, (models.get(model) ?? 0) + 1);
    }
  }
  return [...lines].sort(byName).map(([line, models]) => {
    const most = [...models].sort(([, a], [, b]) => b - a);
    const rest = most.slice(maxModels).reduce((sum, [, count]) => sum + count, 0);
    const named = most.slice(0, maxModels).map(([model, count]) => `${count} ${model}`);
    return `${line}: ${[...named, ...(rest === 0 ? [] : [`${rest} others`])].join(", ")}`;
  });
}

const byName = ([a]: readonly [string, unknown], [b]: readonly [string, unknown]): number =>
  a < b ? -1 : a > b ? 1 : 0;

export function isOpenRollout({ phase }: RolloutAnswer): boolean {
  return phase === "created" || phase === "running" || phase === "paused";
}

/** The list of devices, with the fleet and its rollouts above it. */
export function fleetScreen(
  view: FleetView,
  { columns, rows }: ScreenSize,
  {
    selected,
    nowMs,
    problem,
  }: { readonly selected: number; readonly nowMs: number; readonly problem?: string },
): readonly Line[] {
  const rate = totalRate(view, nowMs);
  const head: Line[] = [
    {
      text: `fleet ${view.fleet}: ${describeCounts(view.devices)}${rate > 0 ? `; ${formatBytes(rate)}/s come in` : ""}`,
      style: "head",
    },
    ...(problem === undefined ? [] : [{ text: problem, style: "bad" } as const]),
    ...view.rollouts.filter(isOpenRollout).slice(-3).flatMap(rolloutLines),
    { text: "" },
    { text: deviceRow(["DEVICE", "STATE", "RUNS", "NOW"]), style: "head" },
  ];
  const foot: Line[] = [
    ...view.notes.slice(-notesOf(rows)).map((text) => ({ text, style: "faint" }) as const),
    { text: "↑ ↓ a device   Enter its page   q ends", style: "faint" },
  ];
  const space = Math.max(1, rows - head.length - foot.length - 2);
  const from = Math.min(
    Math.max(0, selected - Math.floor(space / 2)),
    Math.max(0, view.devices.length - space),
  );
  const listed = view.devices.slice(from, from + space).map((device, at) => ({
    text: deviceRow([device.device, stateOf(device), runsOf(device), doingOf(view.doing.get(device.device))]),
    ...(from + at === selected
      ? { style: "selected" as const }
      : device.state !== "enrolled" || device.doubt !== undefined
        ? { style: "bad" as const }
        : {}),
  }));
  const empty =
    view.devices.length === 0 ? [{ text: "no devices; enrol one with: stemma device enroll" }] : [];
  return fit([...head, ...empty, ...listed, { text: "" }, ...foot], { columns, rows });
}

/** Draws one device's page. */
export function devicePage(
  lines: readonly string[],
  events: readonly string[],
  size: ScreenSize,
): readonly Line[] {
  const space = Math.max(1, size.rows - Math.min(lines.length, size.rows - 6) - 3);
  return fit(
    [
      ...lines
        .slice(0, Math.max(1, size.rows - 6))
        .map((text, at) => ({ text, ...(at === 0 && { style: "head" as const }) })),
      { text: "" },
      ...events.slice(-space).map((text) => ({ text, style: "faint" as const })),
      { text: "Esc the list   q ends", style: "faint" },
    ],
    size,
  );
}

const notesOf = (rows: number): number => (rows >= 20 ? 4 : rows >= 12 ? 2 : 0);

function rolloutLines(rollout: RolloutAnswer): readonly Line[] {
  const { passed, switched, missed = 0, undecided, kept, worse, failed } = rollout.devices;
  const decided = switched + missed + kept + worse + failed;
  const all = passed + undecided + kept + worse + failed;
  const filled = all === 0 ? 0 : Math.round((decided / all) * barCells);
  const [first = "", ...rest] = headOfRollout(rollout);
  const isBad = rollout.phase === "paused" || worse + failed > 0;
  return [
    {
      text: `${"█".repeat(filled)}${"░".repeat(barCells - filled)} ${first}`,
      ...(isBad && { style: "bad" as const }),
    },
    ...rest.map((text) => ({ text })),
  ];
}

function stateOf({ state, online, doubt }: ListedDevice): string {
  if (state !== "enrolled") return state;
  return `${online ? "online" : "offline"}${doubt === undefined ? "" : "!"}`;
}

function runsOf({ runs }: ListedDevice): string {
  return (
    Object.entries(runs)
      .map(([line, model]) => `${line} ${model}`)
      .join(", ") || "-"
  );
}

function doingOf(doing: Doing | undefined): string {
  if (doing === undefined) return "";
  const { transfer, text } = doing;
  if (transfer === undefined) return text;
  const { bytes, totalBytes, bytesPerSecond } = transfer;
  const share = totalBytes === 0 ? 100 : Math.floor((100 * bytes) / totalBytes);
  const rate = bytesPerSecond === undefined ? "" : `, ${formatBytes(bytesPerSecond)}/s`;
  return `↑ ${share} % of ${formatBytes(totalBytes)}${rate}`;
}

const widths = [16, 11, 22] as const;

function deviceRow(cells: readonly [string, string, string, string]): string {
  return cells.map((cell, at) => pad(printable(cell), widths[at])).join(" ");
}

function pad(text: string, length: number | undefined): string {
  if (length === undefined) return text;
  return text.length > length ? `${text.slice(0, length - 1)}…` : text.padEnd(length);
}

/** Cuts lines to the terminal: none is wider, and there are no more than fit. */
function fit(lines: readonly Line[], { columns, rows }: ScreenSize): readonly Line[] {
  return lines.slice(0, Math.max(1, rows - 1)).map((line) => {
    const text = printable(line.text.replaceAll(/[\r\n]+/g, " "));
    return { ...line, text: text.length > columns ? `${text.slice(0, Math.max(0, columns - 1))}…` : text };
  });
}

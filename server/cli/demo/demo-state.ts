/** The state that the demo's screen shows, computed from the server's events. Pure. */
import type { ServerEvent } from "../../interface/api/event-schemas.js";

export interface LineState {
  readonly device: string;
  readonly line: string;
  readonly doing: string;
  readonly activeVersion: string;
  readonly saved: number;
  readonly transferred: number;
  readonly transferTotal: number;
  readonly wireBytes: number;
  readonly fullBytes: number;
}
export interface DemoState {
  readonly online: ReadonlySet<string>;
  readonly lines: ReadonlyMap<string, LineState>;
  /** Newest last. */
  readonly notes: readonly string[];
  readonly names: ReadonlyMap<string, string>;
}

export function initialState(
  lines: readonly { readonly device: string; readonly line: string }[],
): DemoState {
  const empty = {
    doing: "waiting",
    activeVersion: "-",
    saved: 0,
    transferred: 0,
    transferTotal: 0,
    wireBytes: 0,
    fullBytes: 0,
  };
  return {
    online: new Set(),
    notes: [],
    names: new Map(),
    lines: new Map(lines.map(({ device, line }) => [keyOf(device, line), { device, line, ...empty }])),
  };
}

export function keyOf(device: string, line: string): string {
  return `${device}/${line}`;
}

export function withNote(state: DemoState, note: string): DemoState {
  return { ...state, notes: [...state.notes, note].slice(-6) };
}

export function applyEvent(state: DemoState, event: ServerEvent): DemoState {
  switch (event.event) {
    case "device-connected":
      return { ...state, online: new Set([...state.online, event.device]) };
    case "device-disconnected":
      return { ...state, online: new Set([...state.online].filter((device) => device !== event.device)) };
    case "offered":
      return update(state, event, () => ({ doing: "receives its initial model" }));
    case "announced":
      return update(state, event, () => ({ doing: "announced a model", transferred: 0, transferTotal: 0 }));
    case "wanted":
      return update(state, event, () => ({
        doing: `server wants ${event.objects} ${event.reason === "TENSORS" ? "tensors" : "objects"}`,
      }));
    case "transfer":
      return update(state, event, () => ({
        doing: "sends",
        transferred: event.bytes,
        transferTotal: event.totalBytes,
      }));
    case "recorded": {
      const name = `${event.name}:${event.version}`;
      const named = { ...state, names: new Map([...state.names, [event.versionId, name]]) };
      return update(named, event, (line) => ({
        doing: `${name} recorded`,
        saved: line.saved + 1,
        transferred: 0,
        transferTotal: 0,
        wireBytes: line.wireBytes + event.wireBytes,
        fullBytes: line.fullBytes + event.tensorBytes,
      }));
    }
    case "claimed":
      return update(state, event, (line) => ({
        doing: "reported how it made a model",
        saved: line.saved + 1,
        transferred: 0,
        transferTotal: 0,
        wireBytes: line.wireBytes + event.wireBytes,
        fullBytes: line.fullBytes + event.tensorBytes,
      }));
    case "claim-ended":
      return update(state, event, () => ({
        doing: event.verdict === "proved" ? "the server proved its model" : `its model is ${event.verdict}`,
      }));
    case "stored":
      return withName(state, event.versionId, `${event.name}:${event.version}`);
    case "activated":
      return update(state, event, () => ({
        doing: "runs its new model",
        activeVersion: state.names.get(event.versionId) ?? shortened(event.versionId),
      }));
    case "device-event":
      return event.name.startsWith("training")
        ? update(state, event, () => ({ doing: event.text }))
        : withNote(state, `${event.device}: ${event.text}`);
    case "refused":
      return withNote(state, `${event.device}: refused, ${event.message}`);
    default:
      return state;
  }
}

/** Names a version, also where a line runs it already: a model gets its name when it is proved. */
function withName(state: DemoState, versionId: string, name: string): DemoState {
  const lines = [...state.lines].map(([key, line]): [string, LineState] => [
    key,
    line.activeVersion === shortened(versionId) ? { ...line, activeVersion: name } : line,
  ]);
  return { ...state, lines: new Map(lines), names: new Map(state.names).set(versionId, name) };
}

/** Shown until the version has a name. */
function shortened(versionId: string): string {
  return versionId.slice(0, 8);
}

function update(
  state: DemoState,
  { device, line }: { readonly device: string; readonly line: string },
  change: (line: LineState) => Partial<LineState>,
): DemoState {
  const before = state.lines.get(keyOf(device, line));
  if (before === undefined) return state;
  return {
    ...state,
    lines: new Map([...state.lines, [keyOf(device, line), { ...before, ...change(before) }]]),
  };
}

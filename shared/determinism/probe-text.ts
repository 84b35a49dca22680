/** Probes and their comparison as text for people. States what is known, and not more. Pure. */
import {
  knownDifference,
  type ExactDifference,
  type PlacedOperation,
  type ProbeComparison,
  type ProbeDifference,
} from "./compare-probes.js";
import type { Figures } from "./figures.js";
import { phases, type ProbePhase, type ProbeSummary } from "./probe-summary.js";
import { counted } from "../printable.js";

const phaseText: Readonly<Record<ProbePhase, string>> = {
  evaluation: "the evaluation",
  training: "the forward pass of training",
  backward: "the backward pass",
};

/** "wasm, 1 thread, x64, Node v20.19.0" or "cuda, 4 threads, x86_64, Python 3.12": what decides bits, and where. */
export function describeMachine({ environment }: Pick<ProbeSummary, "environment">): string {
  const { backend = "?", threads = "?", architecture = "?", node = "?", engine = "", python } = environment;
  const software =
    python === undefined
      ? `Node ${node}, engine ${engine.slice(0, 12)}`
      : `Python ${python}, PyTorch ${environment["library.torch"] ?? "?"}`;
  return `${backend}, ${threads} ${threads === "1" ? "thread" : "threads"}, ${architecture}, ${software}`;
}

/** Describes a probe on one machine. @param title what was probed @param difference of a run from the first one */
export function describeProbe(title: string, summary: ProbeSummary, difference?: ProbeDifference): string[] {
  const { model, inputs, layers, refused, runs } = summary;
  const reached = phases.filter((phase) => layers.some((layer) => layer[phase] !== null));
  const agreement =
    runs.count === 1
      ? "one run, so nothing was compared"
      : runs.differing === 0
        ? `${runs.count} runs in processes of their own gave the same bits`
        : `${runs.count} runs did NOT give the same bits: ${runs.differing} values ${difference === undefined ? "or passes are missing in one" : "differ"}`;
  return [
    `${title}: ${agreement}`,
    `  architecture ${model.architecture.slice(0, 12)}, ${layers.length} ${layers.length === 1 ? "layer" : "layers"}, ${model.weights === "own" ? "its own weights" : "weights drawn from the seed"}; seed ${inputs.seed}, batch ${inputs.batch}`,
    `  ${describeMachine(summary)}`,
    `  probed: ${reached.map((phase) => phaseText[phase]).join(", ") || "nothing"}`,
    ...(refused === null ? [] : [`  the engine does not train it: ${refused.because}`]),
    ...(difference === undefined ? [] : describeDifference(difference)),
  ];
}

/** The first place, and what is known of its size. @param exact from the tensors, where they are there */
export function describeDifference(difference: ProbeDifference, exact?: ExactDifference): string[] {
  const { phase, layer, name, className, value, a, b, madeBy } = difference;
  const before = madeBy.filter((each) => phase !== "backward" && each !== layer);
  const together =
    before.length === 0 ? "" : `, which one of the two computes together with layer ${short(before)}`;
  return [
    `  first difference: ${phaseText[phase]}, layer ${layer} (${name === undefined ? "" : `${name}, `}${className}), ${value}${together}`,
    `  ${operationText(difference)}`,
    ...sizeText(a, b, exact).map((line) => `  ${line}`),
  ];
}

const noOperation = "no operation that made it is listed";

function operationText({ operation, madeBy, layer, name: module }: ProbeDifference): string {
  const name = (one: PlacedOperation | null): string =>
    one === null ? "none" : `${one.name} (${one.kernel})`;
  const place = ({ position, layer: own }: PlacedOperation): string =>
    `number ${position}${own === layer ? "" : ` of layer ${own}`}`;
  // The output of a module may be read by operations outside of all modules.
  if (madeBy.length === 0)
    return module === undefined ? "made by the loss, whose operations are not listed" : noOperation;
  if (operation.kind === "none") return noOperation;
  if (operation.kind === "unlisted") return "none of the listed operations that made it differs";
  const { a, b } = operation;
  if (operation.kind === "others")
    return `the two ran other operations from ${place((a ?? b) as PlacedOperation)} on: ${name(a)} and ${name(b)}`;
  return `first operation that differs: ${place(operation.a)}, ${name(a)}${operation.a.kernel === operation.b.kernel ? "" : ` and ${name(b)}`}`;
}

function sizeText(a: Figures | null, b: Figures | null, exact: ExactDifference | undefined): string[] {
  if (a === null || b === null) return ["only one of the two has this value"];
  if (a.shape.join() !== b.shape.join() || a.dtype !== b.dtype)
    return [`${a.dtype} [${a.shape.join(", ")}] and ${b.dtype} [${b.shape.join(", ")}]`];
  const { atLeast, sampled, of, largest } = knownDifference(a, b);
  const magnitude = `numbers up to ${shown(largest)}`;
  const specials =
    a.nan === b.nan && a.infinite === b.infinite
      ? []
      : [`NaN: ${a.nan} and ${b.nan}; infinite: ${a.infinite} and ${b.infinite}`];
  const size =
    exact !== undefined
      ? `largest difference ${shown(exact.largest)} at position ${exact.at}; ${exact.differing} of ${exact.of} numbers differ (${magnitude})`
      : atLeast === null
        ? "how large it is cannot be told: some numbers are not finite"
        : atLeast === 0
          ? `how large it is cannot be told from range and ${sampled} of ${of} numbers, which are equal (${magnitude})`
          : `largest difference at least ${roundedDown(atLeast)}, by range and ${sampled} of ${of} numbers (${magnitude})`;
  return [size, `norm ${shown(a.norm)} and ${shown(b.norm)}`, ...specials];
}

const shown = (value: number): string =>
  Number.isFinite(value) ? String(Number(value.toPrecision(9))) : String(value);

/** Three digits, never more than the number: "at least" stays true. */
function roundedDown(value: number): string {
  if (!Number.isFinite(value)) return String(value);
  const text = value.toPrecision(3);
  if (Number(text) <= value) return text;
  return (value - 10 ** (Math.floor(Math.log10(value)) - 2)).toPrecision(3);
}

/** The verdict on two summaries, line by line. */
export function describeComparison(
  a: ProbeSummary,
  b: ProbeSummary,
  {
    comparison,
    exact,
  }: { readonly comparison: ProbeComparison; readonly exact?: ExactDifference | undefined },
): string[] {
  const { differences, compared, unreached, together } = comparison;
  const [first] = differences;
  const fields = [...new Set([...Object.keys(a.environment), ...Object.keys(b.environment)])]
    .sort()
    .filter((field) => a.environment[field] !== b.environment[field]);
  return [
    first === undefined
      ? `the same: all ${compared} outputs and gradients of ${counted(a.layers.length, "layer")} have the same bits`
      : `different: ${differences.length} of ${compared} outputs and gradients`,
    ...(first === undefined ? [] : describeDifference(first, exact)),
    ...(first === undefined
      ? []
      : phases.map((phase) => `  ${phaseText[phase]}: ${layersText(comparison, phase)}`)),
    ...unreached.map(
      (phase) => `  ${phaseText[phase]}: only one of the two reached all of it, the rest was not compared`,
    ),
    ...(together.length === 0
      ? []
      : [
          `  not compared by themselves, since one of the two computes them with what follows: layers ${short(together)}`,
        ]),
    `  environment: ${fields.length === 0 ? "the same" : fields.map((field) => `${field} ${valueText(a, field)} and ${valueText(b, field)}`).join("; ")}`,
  ];
}

function layersText({ differences }: ProbeComparison, phase: ProbePhase): string {
  const found = [...new Set(differences.filter((each) => each.phase === phase).map(({ layer }) => layer))];
  return found.length === 0 ? "no layer differs" : `${found.length} differ: ${short(found)}`;
}

const maxListed = 12;
function short(numbers: readonly number[]): string {
  const more = numbers.length - maxListed;
  return `${numbers.slice(0, maxListed).join(", ")}${more > 0 ? ` and ${more} more` : ""}`;
}

function valueText({ environment }: ProbeSummary, field: string): string {
  const value = environment[field] ?? "nothing";
  return /^[0-9a-f]{64}$/.test(value) ? value.slice(0, 12) : value;
}

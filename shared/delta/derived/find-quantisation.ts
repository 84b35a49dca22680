/**
 * Finds by which formula floats became codes, or codes floats. It looks at a sample of a few groups, with the
 * numbers of complete groups where a scale follows from them. Tries a bounded number of formulas. Pure.
 */
import type { Tensor } from "../../tensor/tensor.js";
import { fitFloats, fitScaling } from "./fit-scaling.js";
import { isFloat8 } from "./float8.js";
import { canScale, valuesOf } from "./float-numbers.js";
import type { Grouping, GroupRuns } from "./groups.js";
import {
  codesOf,
  extremesOf,
  groupsOf,
  hasCodes,
  isScale,
  scalesByRule,
  unpackCodes,
  zerosByRule,
  type GroupExtremes,
  type Quantisation,
  type Scaling,
} from "./quantisation.js";
import { gatherGroups, looksLike, sampleGroups, type GroupSample } from "./sample-groups.js";

export interface FoundQuantisation {
  readonly quantisation: Quantisation;
  readonly scaling: Scaling;
}

/** A formula must give so much of the sample; scales that are fitted, so much. */
const minFormulaShare = 0.97;
const minFittedShare = 0.5;
const groupSizes = [256, 128, 64, 32, 16];

/**
 * @param source floats that may have become the child's codes, or codes that may have become its floats
 * @param reference a tensor that may have the scales
 */
export function findQuantisation(
  child: Tensor,
  source: Tensor,
  reference?: Tensor,
): FoundQuantisation | undefined {
  if (canScale(source.dtype) && hasCodes(child.dtype)) return findCodes(child, source, reference);
  if (hasCodes(source.dtype) && canScale(child.dtype)) return findFloats(child, source, reference);
  return undefined;
}

const plain: Quantisation = {
  toCodes: true,
  packing: "bytes",
  isSigned: false,
  min: 0,
  max: 255,
  grouping: "all",
  rounding: "even",
  isReciprocal: false,
  scaleRule: "stored",
  scaleType: "F32",
  zeroRule: "fixed",
  zero: 0,
};

/** Returns how the bytes of so many numbers may hold codes, most usual first. */
function forms(codes: Tensor, numbers: number): readonly Quantisation[] {
  const { dtype, bytes } = codes;
  if (bytes.length === numbers) {
    if (isFloat8(dtype)) return [plain];
    return dtype === "I8" ? [{ ...plain, isSigned: true, min: -128, max: 127 }] : [plain];
  }
  if (bytes.length * 2 !== numbers || isFloat8(dtype)) return [];
  return (["lowFirst", "highFirst", "halves"] as const).flatMap((packing) => [
    { ...plain, packing, max: 15 },
    { ...plain, packing, isSigned: true, min: -8, max: 7 },
  ]);
}

/** Groupings of a shape, coarsest first. */
function groupingsOf(shape: readonly number[]): readonly Grouping[] {
  const row = shape.at(-1) ?? 1;
  const axes = shape.flatMap((size, axis) => (size > 1 ? [{ axis }] : []));
  const sizes = groupSizes.filter((size) => size < row && row % size === 0).map((size) => ({ size }));
  return ["all", ...(shape.length > 1 ? axes : []), ...sizes];
}

interface Candidate extends FoundQuantisation {
  readonly share: number;
}

/** One grouping with its sample. */
interface Trial {
  readonly form: Quantisation;
  readonly dtype: Tensor["dtype"];
  readonly runs: GroupRuns;
  readonly sample: GroupSample;
  readonly extremes: GroupExtremes;
  readonly values: Float32Array;
  readonly codes: Int16Array;
}

function findCodes(
  child: Tensor,
  source: Tensor,
  reference: Tensor | undefined,
): FoundQuantisation | undefined {
  const values = valuesOf(source) as Float32Array;
  const chosen = chooseForm(forms(child, values.length), child, values);
  if (chosen === undefined) return undefined;
  const { codes } = chosen;
  const form = usedRange(chosen.form, codes);
  let best: Candidate | undefined;
  const trials: Trial[] = [];
  for (const grouping of groupingsOf(source.shape)) {
    const own = { ...form, grouping };
    const runs = groupsOf(source.shape, own);
    if (runs === undefined || !isUsable(chosen, runs)) continue;
    const sample = sampleGroups(runs, values.length);
    const trial: Trial = {
      form: own,
      dtype: child.dtype,
      runs,
      sample,
      extremes: extremesOf(values, runs),
      values: gatherGroups(values, runs, sample),
      codes: gatherGroups(codes, runs, sample),
    };
    trials.push(trial);
    best = better(best, tryFormulas(trial, reference));
    if (best !== undefined && best.share === 1) break;
  }
  const complete = { dtype: child.dtype, shape: source.shape, values, codes };
  if (best !== undefined && best.share >= minFormulaShare) return withExactArithmetic(best, complete);
  for (const trial of trials) {
    const fitted = fitScaling({ ...trial, values, codes });
    best = better(best, { ...fitted, share: shareOf(trial, fitted) });
    if (best !== undefined && best.share >= minFormulaShare) break;
  }
  return best !== undefined && best.share >= minFittedShare ? best : undefined;
}

/** Codes of a group's halves in one byte are known for groups of one size. */
function isUsable({ form, groupSize }: ChosenForm, { length }: GroupRuns): boolean {
  return form.packing !== "halves" || length === groupSize;
}

interface CompleteCodes {
  readonly dtype: Tensor["dtype"];
  readonly shape: readonly number[];
  readonly values: Float32Array;
  readonly codes: Int16Array;
}

/** The order of operations that gives most codes of all: a sample seldom tells a product from a quotient. */
function withExactArithmetic(found: FoundQuantisation, all: CompleteCodes): FoundQuantisation {
  const { values, codes, dtype, shape } = all;
  const { quantisation: first, scaling } = found;
  const runs = groupsOf(shape, first)!;
  let best: { readonly quantisation: Quantisation; readonly wrong: number } | undefined;
  const others = (["even", "away", "up"] as const).filter((rounding) => rounding !== first.rounding);
  const roundings = first.rounding === "down" || first.rounding === "cut" ? [] : others;
  for (const rounding of [first.rounding, ...roundings])
    for (const isReciprocal of [first.isReciprocal, !first.isReciprocal]) {
      const quantisation = { ...first, rounding, isReciprocal };
      const own = codesOf(values, quantisation, { runs, scaling, dtype });
      let wrong = 0;
      for (let i = 0; i < own.length; i++) if (own[i] !== codes[i]) wrong++;
      if (best === undefined || wrong < best.wrong) best = { quantisation, wrong };
      if (wrong === 0) return { quantisation, scaling };
    }
  return { quantisation: best!.quantisation, scaling };
}

function better(a: Candidate | undefined, b: Candidate | undefined): Candidate | undefined {
  if (a === undefined || b === undefined) return a ?? b;
  return b.share > a.share ? b : a;
}

interface ChosenForm {
  readonly form: Quantisation;
  readonly codes: Int16Array;
  /** The numbers of a group, with codes of a group's halves in one byte. */
  readonly groupSize: number;
}

/** The form under which codes rise with the numbers. */
function chooseForm(
  all: readonly Quantisation[],
  child: Tensor,
  values: Float32Array,
): ChosenForm | undefined {
  let best: (ChosenForm & { readonly likeness: number }) | undefined;
  for (const form of all) {
    const sizes = form.packing === "halves" ? groupSizes.filter((size) => values.length % size === 0) : [2];
    for (const groupSize of sizes) {
      const codes = unpackCodes(child.bytes, form, groupSize);
      const likeness = looksLike(values, codes, isFloat8(child.dtype));
      if (best === undefined || likeness > best.likeness) best = { form, codes, groupSize, likeness };
    }
    if (best !== undefined && best.likeness > 0.95) break;
  }
  return best !== undefined && best.likeness > 0.5 ? best : undefined;
}

const rulesOfScale = ["byMax", "byHalf", "byMin", "byRange", "byOwnRange", "byExtreme"] as const;

/** The formula that gives most of the sample. */
function tryFormulas(trial: Trial, reference: Tensor | undefined): Candidate | undefined {
  let best: Candidate | undefined;
  const consider = (quantisation: Quantisation, scales: Float32Array): void => {
    const scaling = { scales, zeros: zerosByRule(trial.extremes, scales, quantisation) };
    const share = shareOf(trial, { quantisation, scaling });
    if (best === undefined || share > best.share) best = { quantisation, scaling, share };
  };
  const named = reference === undefined ? undefined : referenceScales(reference, trial.runs.count);
  const { form } = trial;
  const rules = named === undefined ? rulesOfScale : (["reference", ...rulesOfScale] as const);
  for (const scaleRule of rules)
    for (const zero of zeroRulesOf(form, trial.dtype)) {
      const quantisation = { ...form, ...zero, scaleRule };
      consider(
        quantisation,
        scaleRule === "reference" ? named! : scalesByRule(trial.extremes, quantisation, trial.dtype),
      );
    }
  const found = best;
  if (found === undefined || found.share < minFittedShare) return found;
  for (const scaleType of ["F32", "F16", "BF16"] as const)
    for (const rounding of ["even", "away", "up", "down", "cut"] as const)
      for (const isReciprocal of [false, true]) {
        if (best!.share === 1) return best;
        const quantisation = { ...found.quantisation, rounding, isReciprocal, scaleType };
        const isNamed = quantisation.scaleRule === "reference";
        if (isNamed && scaleType !== "F32") continue;
        consider(quantisation, isNamed ? named! : scalesByRule(trial.extremes, quantisation, trial.dtype));
      }
  return best;
}

/** The scales that a tensor holds, as float32; undefined where it has another count or one that is not a scale. */
export function referenceScales(reference: Tensor, count: number): Float32Array | undefined {
  if (!canScale(reference.dtype)) return undefined;
  const scales = valuesOf(reference) as Float32Array;
  return scales.length === count && scales.every(isScale) ? scales : undefined;
}

/** Codes in two's complement may use one less below zero than they could. */
function usedRange(form: Quantisation, codes: Int16Array): Quantisation {
  return form.isSigned && !codes.includes(form.min) ? { ...form, min: form.min + 1 } : form;
}

function zeroRulesOf(
  { isSigned, max }: Quantisation,
  dtype: Tensor["dtype"],
): readonly Pick<Quantisation, "zeroRule" | "zero">[] {
  const fixed = (zero: number): Pick<Quantisation, "zeroRule" | "zero"> => ({ zeroRule: "fixed", zero });
  if (isFloat8(dtype)) return [fixed(0)];
  const middle = isSigned ? 0 : (max + 1) / 2;
  const byRule = (["rounded", "shifted", "smallest"] as const).map((zeroRule) => ({ zeroRule, zero: 0 }));
  return [fixed(middle), ...byRule, ...(isSigned ? [] : [fixed(0)])];
}

/** The share of the sample that comes out. */
function shareOf(
  { values, codes, sample, dtype }: Trial,
  { quantisation, scaling }: FoundQuantisation,
): number {
  const pick = (all: Float32Array | Float64Array): Float64Array =>
    Float64Array.from(sample.groups, (group) => all[group]!);
  const own = codesOf(values, quantisation, {
    runs: { count: sample.groups.length, length: sample.perGroup },
    scaling: { scales: Float32Array.from(pick(scaling.scales)), zeros: pick(scaling.zeros) },
    dtype,
  });
  let equal = 0;
  for (let i = 0; i < own.length; i++) if (own[i] === codes[i]) equal++;
  return equal / own.length;
}

function findFloats(
  child: Tensor,
  source: Tensor,
  reference: Tensor | undefined,
): FoundQuantisation | undefined {
  const values = valuesOf(child) as Float32Array;
  const chosen = chooseForm(forms(source, values.length), source, values);
  if (chosen === undefined) return undefined;
  const { form, codes } = chosen;
  let best: Candidate | undefined;
  for (const grouping of groupingsOf(child.shape)) {
    const own: Quantisation = { ...form, grouping, toCodes: false };
    const runs = groupsOf(child.shape, own);
    if (runs === undefined || !isUsable(chosen, runs)) continue;
    const named = reference === undefined ? undefined : referenceScales(reference, runs.count);
    best = better(best, fitFloats({ form: own, child, values, codes, runs, source, named }));
    if (best !== undefined && best.share === 1) break;
  }
  return best !== undefined && best.share >= minFittedShare ? best : undefined;
}

/**
 * Decides whether a transfer is coded. Pure: takes the profile's setting, the measured rates of link and
 * processor, and the codec's estimate; returns the decision and its reason.
 */

/** The terms of the link, by a profile. */
export interface LinkTerms {
  readonly coding: "auto" | "always" | "never";
  readonly metered: boolean;
  /** The limit of the link; null: none. */
  readonly bytesPerSecond: number | null;
}

export interface CodingEstimate {
  readonly link: LinkTerms;
  /** Bytes per second that earlier transfers of this process moved; undefined before the first. */
  readonly measuredBytesPerSecond: number | undefined;
  /** Raw bytes per second that this device codes, as measured on it. */
  readonly coderBytesPerSecond: number;
  readonly rawBytes: number;
  /** The codec's estimate of the coded length of the same tensors. */
  readonly codedBytes: number;
  readonly tensors: number;
}
export interface CodingDecision {
  readonly coded: boolean;
  readonly because: string;
}

/** Rate of a link that declares none and was not measured yet: 100 Mbit/s. */
const assumedBytesPerSecond = 12_500_000;
/** Additional bytes of a coded tensor in the manifest: code, length, two ids. */
export const encodingBytes = 80;
/**
 * Coding has to cost less than this share of the raw transfer; a smaller gain is within the error of the
 * estimates.
 */
const maxCodedShare = 0.97;

/**
 * Compares total times: coding takes processor time before the first byte moves, and raw bytes take longer on
 * the link. On a metered link the number of bytes decides.
 */
export function decideCoding({
  link,
  measuredBytesPerSecond,
  coderBytesPerSecond,
  rawBytes,
  codedBytes,
  tensors,
}: CodingEstimate): CodingDecision {
  if (link.coding !== "auto")
    return { coded: link.coding === "always", because: `the profile sets coding to ${link.coding}` };
  const bytes = codedBytes + encodingBytes * tensors;
  if (bytes >= maxCodedShare * rawBytes)
    return { coded: false, because: `coded it would take ${bytes} bytes of ${rawBytes}` };
  if (link.metered)
    return {
      coded: true,
      because: `the link is metered, and coding saves ${rawBytes - bytes} bytes of ${rawBytes}`,
    };
  const rate = Math.min(
    link.bytesPerSecond ?? Infinity,
    measuredBytesPerSecond ?? (link.bytesPerSecond === null ? assumedBytesPerSecond : Infinity),
  );
  const rawMs = (1000 * rawBytes) / rate;
  const codedMs = (1000 * bytes) / rate + (1000 * rawBytes) / coderBytesPerSecond;
  const times = `${Math.round(codedMs)} ms coded, ${Math.round(rawMs)} ms raw at ${Math.round(rate)} bytes a second`;
  return { coded: codedMs < maxCodedShare * rawMs, because: times };
}

/**
 * Finding low-rank predictions takes 15 to 130 ms for each megabyte and saves 5 to 30 % of its bytes (measured
 * on one core, docs/performance.md). On slower links than this it saves time, even on a processor that is four
 * times slower.
 */
const lowRankBytesPerSecond = 320_000;

/** True if models on this link are coded with low-rank predictions. */
export function prefersLowRank({ metered, bytesPerSecond }: CodingEstimate["link"]): boolean {
  return metered || (bytesPerSecond !== null && bytesPerSecond <= lowRankBytesPerSecond);
}

/** Usual share of its raw bytes that a version takes when it is coded against related versions, or alone. */
const usualShare = { related: 0.7, alone: 0.85 };
/** Raw bytes per second that any server is assumed to code. */
const serverBytesPerSecond = 100_000_000;

/**
 * The same decision for a download, whose coded length this device can only guess beforehand.
 * @param related whether it holds anything that the server may code against
 */
export function decideDownloadCoding(
  link: CodingEstimate["link"],
  rawBytes: number,
  tensors: number,
  related: boolean,
): CodingDecision {
  const codedBytes = rawBytes * (related ? usualShare.related : usualShare.alone);
  return decideCoding({
    link,
    measuredBytesPerSecond: undefined,
    coderBytesPerSecond: serverBytesPerSecond,
    rawBytes,
    codedBytes,
    tensors,
  });
}

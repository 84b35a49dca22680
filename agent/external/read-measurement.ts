/**
 * Reads what a measurement program left: measurement.json, and predictions.safetensors where there is one. Another
 * program wrote both, so only regular files are read, never through links, and all within limits.
 */
import { join } from "node:path";
import * as z from "zod";
import { messageOf } from "../../shared/error-text.js";
import { isStemmaError, StemmaError } from "../../shared/errors.js";
import { openRegularFile, type RegularFile } from "../../shared/files/regular-file.js";
import { littleEndianFloats } from "../../shared/tensor/little-endian-floats.js";
import { readSafetensors, type SafetensorsFile } from "../../shared/tensor/safetensors.js";
import { tensorOfSource } from "../../shared/tensor/tensor.js";
import { counted } from "../../shared/printable.js";

const figuresName = "measurement.json";
const predictionsName = "predictions.safetensors";
const predictionsTensor = "outputs";

/** The longest text of a number in JSON, with what is between two. */
const maxNumberBytes = 40;
const maxOtherBytes = 64 * 1024;
const maxPredictionBytes = 64 * 1024 * 1024;
/** A sum of squares of as many losses as there can be stays a number. */
const maxLoss = 1e100;

const loss = z.number().min(-maxLoss).max(maxLoss);
const figures = z.object({ losses: z.union([z.array(loss), loss]) });

export interface Measurement {
  /** The mean of the losses, or the only figure. */
  readonly loss: number;
  /** The loss of each sample, in their order; undefined where the program told one figure. */
  readonly losses: Float64Array | undefined;
  /** The model's outputs, row-major, one row for each sample; undefined where the program left none. */
  readonly outputs: Float32Array | undefined;
}

/**
 * @param samples the samples that the program got
 * @throws TRAINER_OUTPUT_INVALID where a file is missing, is not regular, or is not what it has to be
 */
export async function readMeasurement(folder: string, samples: number): Promise<Measurement> {
  const losses = await readLosses(folder, samples);
  const outputs = await readPredictions(folder, samples);
  if (typeof losses === "number") return { loss: losses, losses: undefined, outputs };
  return {
    loss: losses.reduce((sum, each) => sum + each, 0) / samples,
    losses: Float64Array.from(losses),
    outputs,
  };
}

async function readLosses(folder: string, samples: number): Promise<number | readonly number[]> {
  const opened = await openLeft(folder, figuresName);
  if (opened === undefined) throw invalid(`left no ${figuresName} in its current directory`);
  const { file, size } = opened;
  try {
    const maxBytes = maxOtherBytes + samples * maxNumberBytes;
    if (size > maxBytes)
      throw invalid(
        `left a ${figuresName} of ${size} bytes; for ${counted(samples, "sample")} it has at most ${maxBytes}`,
      );
    const bytes = new Uint8Array(size);
    return lossesOf(bytes.subarray(0, await file.read(bytes, 0)), samples);
  } finally {
    await file.close();
  }
}

function lossesOf(bytes: Uint8Array, samples: number): number | readonly number[] {
  let value: unknown;
  try {
    value = JSON.parse(new TextDecoder("utf8", { fatal: true }).decode(bytes));
  } catch (cause) {
    throw invalid(
      `left a ${figuresName} that is not JSON, which has no NaN and no infinite numbers (${messageOf(cause)})`,
      cause,
    );
  }
  const read = figures.safeParse(value);
  if (!read.success)
    throw invalid(`left a ${figuresName} whose "losses" are not a list of numbers, or one, up to ${maxLoss}`);
  const { losses } = read.data;
  if (typeof losses !== "number" && losses.length !== samples)
    throw invalid(`left ${counted(losses.length, "loss", "losses")} for ${counted(samples, "sample")}`);
  return losses;
}

async function readPredictions(folder: string, samples: number): Promise<Float32Array | undefined> {
  const opened = await openLeft(folder, predictionsName);
  if (opened === undefined) return undefined;
  try {
    const outputs = await outputsOf(await readSafetensors(opened.file, predictionsName), samples);
    const bad = outputs.findIndex((each) => !Number.isFinite(each));
    if (bad < 0) return outputs;
    throw invalid(
      `left a prediction for sample ${Math.floor(bad / (outputs.length / samples))} that is NaN or infinite`,
    );
  } catch (cause) {
    if (!isStemmaError(cause) || cause.code === "TRAINER_OUTPUT_INVALID") throw cause;
    throw invalid(`left a ${predictionsName} that cannot be read (${messageOf(cause)})`, cause);
  } finally {
    await opened.file.close();
  }
}

async function outputsOf(file: SafetensorsFile, samples: number): Promise<Float32Array> {
  const entry = file.tensors.find(({ name }) => name === predictionsTensor);
  if (entry?.dtype !== "F32" || entry.shape[0] !== samples || entry.end === entry.begin)
    throw invalid(
      `left a ${predictionsName} without a tensor "${predictionsTensor}" of F32 numbers [${samples}, …]`,
    );
  if (entry.end - entry.begin > maxPredictionBytes)
    throw invalid(`left predictions of more than ${maxPredictionBytes} bytes`);
  return littleEndianFloats((await tensorOfSource(file.source(entry))).bytes);
}

/** undefined where there is none. */
async function openLeft(folder: string, name: string): Promise<RegularFile | undefined> {
  try {
    return await openRegularFile(join(folder, name), { followLinks: false });
  } catch (cause) {
    if (isStemmaError(cause, "FILE_MISSING")) return undefined;
    throw invalid(`left a ${name} that cannot be read (${messageOf(cause)})`, cause);
  }
}

function invalid(problem: string, cause?: unknown): StemmaError {
  return new StemmaError(
    "TRAINER_OUTPUT_INVALID",
    `The measurement program ended well but ${problem}. Nothing was measured; docs/own-models.md describes what ` +
      "it has to leave.",
    { cause },
  );
}

/**
 * The settings of a measurement program: a program of the device's own that tells how wrong a line's models are, in
 * place of the engine, which runs only models with an architecture that it knows. (docs/own-models.md)
 */
import * as z from "zod";
import { environmentSchema, execSchema, outputBytesSchema } from "../../shared/programs/command-settings.js";

/** The server waits five minutes for the measurement of two models, one after the other. */
const maxTimeoutSeconds = 140;

export const measureProgramSchema = z.strictObject({
  exec: execSchema,
  /** Seconds after which it is ended, for each model. */
  timeoutSeconds: z.number().int().min(1).max(maxTimeoutSeconds).default(120),
  /** Bytes that it may write for each model. */
  maxOutputBytes: outputBytesSchema.default(256 * 1024 * 1024),
  /** Environment variables, in addition to those that every program gets. */
  environment: environmentSchema,
});

export type MeasureProgram = z.infer<typeof measureProgramSchema>;

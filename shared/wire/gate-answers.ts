/** Defines which gates of a rollout a device can answer for a line (command `gates`). */
import * as z from "zod";

/** Empty: it can; else why it cannot. */
const reason = z.string().max(500);

/** The measurer of a line's models on a device. */
export const measuredBy = z.enum(["engine", "program", "nothing"]);
export type MeasuredBy = z.infer<typeof measuredBy>;

export const gateAnswers = z.object({
  /** The gate that tells which of two models is the better one, by labels of samples that no training has seen. */
  losses: reason,
  /** The gate that tells how far their outputs lie apart, and what an inference takes. */
  outputs: reason,
  /** The gate of both on its live inputs, which its own software tells. */
  live: reason.default("its agent does not tell"),
  /** An older agent, which has no program, leaves it out; so does what this server does not know. */
  measuredBy: measuredBy.optional().catch(undefined),
});
export type GateAnswers = z.infer<typeof gateAnswers>;

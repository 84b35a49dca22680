/**
 * Reads what a request carries: checked against a schema, refused with HTTP_REQUEST_INVALID naming the field.
 */
import { z } from "zod";
import { StemmaError } from "../../../shared/errors.js";

export const shortText = z.string().min(1).max(256);
export const reasonText = z.string().max(1024).default("");
export const typedValues = z.record(
  z.string().max(256),
  z.union([z.string().max(65536), z.number(), z.boolean()]),
);

export const fleetParams = z.object({ fleet: shortText });
export const deviceParams = z.object({ fleet: shortText, device: shortText });
export const modelParams = z.object({ fleet: shortText, model: z.string().min(1).max(512) });

/** @throws HTTP_REQUEST_INVALID */
export function parse<Schema extends z.ZodType>(schema: Schema, value: unknown): z.infer<Schema> {
  const parsed = schema.safeParse(value ?? {});
  if (!parsed.success)
    throw new StemmaError(
      "HTTP_REQUEST_INVALID",
      `The request is not valid: ${z.prettifyError(parsed.error)}`,
    );
  return parsed.data;
}

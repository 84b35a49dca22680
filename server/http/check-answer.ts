/** Checks a server's answer: another version, or something else behind the address, is found here. */
import type { z } from "zod";
import { StemmaError } from "../../shared/errors.js";
import type { ValueOf } from "../api/operation.js";

/**
 * The answer as it came, so that what a newer server adds is kept.
 * @throws SERVER_UNREACHABLE where it does not fit the schema
 */
export function checkAnswer<Schema extends z.ZodType>(
  schema: Schema,
  answer: unknown,
  server: string,
): ValueOf<Schema> {
  const checked = schema.safeParse(answer);
  if (checked.success) return answer as ValueOf<Schema>;
  const [issue] = checked.error.issues;
  throw new StemmaError(
    "SERVER_UNREACHABLE",
    `${server} answered with something that this version does not understand (${issue?.path.join(".") || "the answer"}: ${issue?.message ?? "invalid"}). Check that a Stemma server of this version listens there.`,
    { cause: checked.error },
  );
}

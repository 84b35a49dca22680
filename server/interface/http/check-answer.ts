/** Checks a server's answer, to detect a server of another version or another program at its address. */
import type * as z from "zod";
import type { ValueOf } from "../api/operation.js";
import { notOfThisVersion } from "./http-errors.js";

/**
 * Returns the answer unchanged, so that members that a newer server adds are kept.
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
  throw notOfThisVersion(
    server,
    `answered with something that this version does not understand (${issue?.path.join(".") || "the answer"}: ${issue?.message ?? "invalid"})`,
    { cause: checked.error },
  );
}

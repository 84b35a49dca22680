/** Describes in words what a schema found wrong with a value. Pure. */
import type * as z from "zod";

/** The first three things wrong with a value, each with its field. */
export function describeIssues(error: z.ZodError): string {
  const shown = error.issues
    .slice(0, 3)
    .map(
      (issue) =>
        `${issue.path.length === 0 ? "the file" : issue.path.map(String).join(".")}: ${issue.message}`,
    );
  const more = error.issues.length - shown.length;
  return shown.join("; ") + (more > 0 ? `; and ${more} more` : "");
}

/**
 * Limits of the HTTP interface on its TCP port. The schema is the documentation of `limits.http` in server.json; a
 * limit that is left out has its default.
 */
import { z } from "zod";

const count = (): z.ZodNumber => z.number().int().positive();

export const httpLimitsSchema = z.strictObject({
  maxConnections: count().default(1024).describe("Number of open connections; event streams count."),
  maxUnknownConnections: count()
    .default(512)
    .describe(
      "Number of open connections without a request that had the token. Beyond this, the oldest silent one of the address that has most of them is closed for a new one.",
    ),
  maxUnknownConnectionsPerAddress: count()
    .default(128)
    .describe(
      "Number of such connections from one IP address (of IPv6: its first 64 bits). Beyond this, the oldest silent one of this address is closed for a new one.",
    ),
  reservedForKnownAddresses: z
    .number()
    .int()
    .nonnegative()
    .default(128)
    .describe(
      "Number of connections, out of maxUnknownConnections, that only addresses may use from which a request had the token before.",
    ),
  certificateRequestsPerMinute: count()
    .default(120)
    .describe(
      "Requests for certificates that one IP address (of IPv6: its first 64 bits) may make in a minute, all of them at once at most. Devices behind one address, or behind a proxy, share them; one that is refused may ask again later.",
    ),
  headDeadlineMs: count()
    .default(10_000)
    .describe("Milliseconds from a request's first byte to the end of its headers."),
});

export type HttpLimits = Readonly<z.infer<typeof httpLimitsSchema>>;

export const defaultHttpLimits: HttpLimits = httpLimitsSchema.parse({});

/**
 * Tokens of the HTTP port besides the home's own: each has a name and a role, may be limited to fleets and end, and the
 * home keeps only its hash. The home's own token (token.ts) has the role admin.
 */
import { timingSafeEqual } from "node:crypto";
import { join } from "node:path";
import * as z from "zod";
import { SerialQueue } from "../../../shared/concurrency/serial-queue.js";
import { StemmaError } from "../../../shared/errors.js";
import { writeDurably } from "../../../shared/files/durable-write.js";
import { notThere, quoted } from "../../../shared/missing-errors.js";
import type { Clock, Files, Random } from "../../../shared/ports.js";
import type { Hash } from "../../../shared/tensor/tensor.js";
import { hashBytes, sha256 } from "../../../shared/tensor/hash.js";
import { isName, nameRule } from "../../../shared/wire/topics.js";
import { defined } from "../../../shared/defined.js";
import { rightsOfRole, roles, type Grant, type Right, type Role } from "../api/rights.js";
import type { OperationDefinition } from "../api/operation.js";
import { bearerMatches } from "./token.js";

export interface NamedToken {
  readonly name: string;
  readonly role: Role;
  readonly fleets?: readonly string[];
  readonly madeAtMs: number;
  /** The time from which on it is refused; absent: never. */
  readonly expiresAtMs?: number;
}

/** The holder of a token. */
export interface TokenBearer extends Grant {
  readonly who: string;
}

const maxTokens = 1000;
/** The name of the home's own token in facts. */
export const ownTokenName = "http-token";

const tokenFile = z.strictObject({
  kind: z.literal("stemma-http-tokens"),
  format: z.literal(1),
  tokens: z
    .array(
      z.strictObject({
        name: z.string().refine(isName),
        role: z.enum(roles),
        madeAtMs: z.number(),
        fleets: z.array(z.string()).min(1).readonly().exactOptional(),
        expiresAtMs: z.number().exactOptional(),
        hash: z.string().regex(/^[0-9a-f]{64}$/),
      }),
    )
    .max(maxTokens),
});
type StoredToken = z.infer<typeof tokenFile>["tokens"][number];

function pathOf(home: string): string {
  return join(home, "http-tokens.json");
}

function hashOf(token: string): string {
  return sha256("stemma-http-token-1\0", token);
}

/** @throws CONFIG_INVALID */
async function readTokens(
  files: Pick<Files, "stat" | "read">,
  home: string,
): Promise<readonly StoredToken[]> {
  const path = pathOf(home);
  if ((await files.stat(path)) === undefined) return [];
  try {
    return tokenFile.parse(JSON.parse(Buffer.from(await files.read(path)).toString("utf8"))).tokens;
  } catch (cause) {
    throw new StemmaError(
      "CONFIG_INVALID",
      `${path} is damaged, so no token in it is accepted. Remove it and make the tokens again with ` +
        `\`stemma token add\`.`,
      { cause, path },
    );
  }
}

export async function listTokens(
  files: Pick<Files, "stat" | "read">,
  home: string,
): Promise<readonly NamedToken[]> {
  return (await readTokens(files, home)).map(({ hash: _, ...token }) => token);
}

/** Changes of the file, one after the other: the server that holds a home is the only one that makes them. */
const changes = new SerialQueue();

/** Makes a token; only the answer has it. @throws NAME_INVALID, QUOTA_EXCEEDED */
export function addToken(...args: Parameters<typeof makeToken>): ReturnType<typeof makeToken> {
  return changes.run(() => makeToken(...args));
}

/** @throws NOT_FOUND */
export function removeToken(...args: Parameters<typeof dropToken>): Promise<void> {
  return changes.run(() => dropToken(...args));
}

async function makeToken(
  {
    files,
    random,
    clock,
  }: { readonly files: Files; readonly random: Random; readonly clock: Pick<Clock, "now"> },
  home: string,
  { name, validMs, ...grant }: Grant & { readonly name: string; readonly validMs?: number | undefined },
): Promise<NamedToken & { readonly token: string }> {
  const tokens = await readTokens(files, home);
  if (!isName(name) || name === ownTokenName || tokens.some((each) => each.name === name))
    throw new StemmaError(
      "NAME_INVALID",
      `${JSON.stringify(name.slice(0, 80))} is not a valid name of a token, or another has it: ${nameRule}. \`stemma token list\` lists them.`,
      { name },
    );
  if (tokens.length >= maxTokens)
    throw new StemmaError("QUOTA_EXCEEDED", `There are ${maxTokens} tokens already. Remove one first.`);
  const token = `stemma_http_${Buffer.from(random.bytes(32)).toString("base64url")}`;
  const madeAtMs = Math.round(clock.now());
  const made = defined({ name, ...grant, madeAtMs, expiresAtMs: validMs && madeAtMs + validMs });
  await writeTokens(files, home, [...tokens, { ...made, hash: hashOf(token) }]);
  return { ...made, token };
}

async function dropToken(files: Files, home: string, name: string): Promise<void> {
  const tokens = await readTokens(files, home);
  const left = tokens.filter((token) => token.name !== name);
  if (left.length === tokens.length)
    throw notThere("NOT_FOUND", `This server has no token ${quoted(name)}`, "token list", { name });
  await writeTokens(files, home, left);
}

async function writeTokens(files: Files, home: string, tokens: readonly StoredToken[]): Promise<void> {
  const content = { kind: "stemma-http-tokens", format: 1, tokens };
  await writeDurably(files, pathOf(home), Buffer.from(`${JSON.stringify(content, null, 2)}\n`));
}

/** Recognises the bearers of tokens. */
export interface TokenReader {
  /** The bearer of an Authorization header; undefined where no token is that. @throws TOKEN_EXPIRED */
  find(header: string | undefined): Promise<TokenBearer | undefined>;
}

/** @param own the home's own token */
export function tokenReader(
  { files, clock }: { readonly files: Pick<Files, "stat" | "read">; readonly clock: Pick<Clock, "now"> },
  home: string,
  own: string,
): TokenReader {
  return {
    async find(header) {
      if (bearerMatches(header, own)) return { who: ownTokenName, role: "admin" };
      if (header?.startsWith("Bearer stemma_http_") !== true) return undefined;
      const given = hashBytes(hashOf(header.slice("Bearer ".length)) as Hash);
      // Read each time, so that a token that was removed opens nothing any more.
      const tokens = await readTokens(files, home).catch(() => []);
      const found = tokens.find(({ hash }) => timingSafeEqual(hashBytes(hash as Hash), given));
      if (found === undefined) return undefined;
      const { name: who, role, fleets, expiresAtMs } = found;
      if (expiresAtMs !== undefined && clock.now() >= expiresAtMs) throw expired(who, expiresAtMs);
      return { who, role, ...defined({ fleets }) };
    },
  };
}

function expired(who: string, expiresAtMs: number): StemmaError {
  return new StemmaError(
    "TOKEN_EXPIRED",
    `The token ${who} expired at ${new Date(expiresAtMs).toISOString()}. Ask for another: an administrator removes ` +
      "it with `stemma token rm` and makes one with `stemma token add`.",
    { expiresAtMs },
  );
}

/**
 * Checks what a bearer asks for.
 * @param fleet that the path or the query names
 * @throws NOT_ALLOWED
 */
export function requireGrant(
  { who, role, fleets }: TokenBearer,
  { right, scoped }: Pick<OperationDefinition, "right" | "scoped">,
  fleet: string | undefined,
): void {
  if (right !== null && !rightsOfRole[role].has(right))
    throw new StemmaError(
      "NOT_ALLOWED",
      `The token ${who} has the role ${role}, and this needs the right ${right} (roles ${rolesWith(right)}). Use a ` +
        "token of such a role (`stemma token add`), or work on the server's own machine with --home.",
      { role, right },
    );
  if (fleets === undefined) return;
  if (scoped === "refused") throw outOfScope({ who, fleets }, "this is about the whole server");
  if (fleet === undefined ? scoped !== "own" : !fleets.includes(fleet))
    throw outOfScope({ who, fleets }, "this asks for another");
}

/** @param because what is asked for, as the end of a sentence */
export function outOfScope(
  { who, fleets = [] }: Pick<TokenBearer, "who" | "fleets">,
  because: string,
): StemmaError {
  return new StemmaError(
    "NOT_ALLOWED",
    `The token ${who} is limited to ${fleets.length === 1 ? "the fleet" : "the fleets"} ${fleets.join(", ")}, and ` +
      `${because}. Use a token of all fleets (\`stemma token add\` without --fleets), or work on the server's own ` +
      "machine with --home.",
    { fleets },
  );
}

function rolesWith(right: Right): string {
  return roles.filter((role) => rightsOfRole[role].has(right)).join(", ");
}

/**
 * Tokens of the HTTP port besides the home's own: each has a name and a role, and the home keeps only its hash. The
 * home's own token (token.ts) has the role admin.
 */
import { timingSafeEqual } from "node:crypto";
import { join } from "node:path";
import * as z from "zod";
import { SerialQueue } from "../../../shared/concurrency/serial-queue.js";
import { StemmaError } from "../../../shared/errors.js";
import { writeDurably } from "../../../shared/files/durable-write.js";
import type { Clock, Files, Random } from "../../../shared/ports.js";
import type { Hash } from "../../../shared/tensor/tensor.js";
import { hashBytes, sha256 } from "../../../shared/tensor/hash.js";
import { isName } from "../../../shared/wire/topics.js";
import { roles, type OperationDefinition, type Role } from "../api/operation.js";
import { bearerMatches } from "./token.js";

export interface NamedToken {
  readonly name: string;
  readonly role: Role;
  readonly madeAtMs: number;
}

/** The holder of a token. */
export interface TokenBearer {
  readonly who: string;
  readonly role: Role;
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
  return (await readTokens(files, home)).map(({ name, role, madeAtMs }) => ({ name, role, madeAtMs }));
}

/** Changes of the file, one after the other: the server that holds a home is the only one that makes them. */
const changes = new SerialQueue();

/** Makes a token; only the answer has it. @throws NAME_INVALID, QUOTA_EXCEEDED */
export function addToken(...args: Parameters<typeof makeToken>): Promise<string> {
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
  { name, role }: Pick<NamedToken, "name" | "role">,
): Promise<string> {
  const tokens = await readTokens(files, home);
  if (!isName(name) || name === ownTokenName || tokens.some((each) => each.name === name))
    throw new StemmaError(
      "NAME_INVALID",
      `${JSON.stringify(name.slice(0, 80))} cannot name a token: use letters, digits, "-" and "_", ` +
        `beginning with a letter or digit, and a name that no other token has. \`stemma token list\` ` +
        "shows them.",
      { name },
    );
  if (tokens.length >= maxTokens)
    throw new StemmaError("QUOTA_EXCEEDED", `There are ${maxTokens} tokens already. Remove one first.`);
  const token = `stemma_http_${Buffer.from(random.bytes(32)).toString("base64url")}`;
  await writeTokens(files, home, [
    ...tokens,
    { name, role, madeAtMs: Math.round(clock.now()), hash: hashOf(token) },
  ]);
  return token;
}

async function dropToken(files: Files, home: string, name: string): Promise<void> {
  const tokens = await readTokens(files, home);
  const left = tokens.filter((token) => token.name !== name);
  if (left.length === tokens.length)
    throw new StemmaError(
      "NOT_FOUND",
      `${JSON.stringify(name.slice(0, 80))} is not the name of a token. \`stemma token list\` shows the names.`,
      { name },
    );
  await writeTokens(files, home, left);
}

async function writeTokens(files: Files, home: string, tokens: readonly StoredToken[]): Promise<void> {
  const content = { kind: "stemma-http-tokens", format: 1, tokens };
  await writeDurably(files, pathOf(home), Buffer.from(`${JSON.stringify(content, null, 2)}\n`));
}

/** Recognises the bearers of tokens. */
export interface TokenReader {
  /** The bearer of an Authorization header; undefined where no token is that. */
  find(header: string | undefined): Promise<TokenBearer | undefined>;
}

/** @param own the home's own token */
export function tokenReader(files: Pick<Files, "stat" | "read">, home: string, own: string): TokenReader {
  return {
    async find(header) {
      if (bearerMatches(header, own)) return { who: ownTokenName, role: "admin" };
      if (header?.startsWith("Bearer stemma_http_") !== true) return undefined;
      const given = hashBytes(hashOf(header.slice("Bearer ".length)) as Hash);
      // Read each time, so that a token that was removed opens nothing any more.
      const tokens = await readTokens(files, home).catch(() => []);
      const found = tokens.find(({ hash }) => timingSafeEqual(hashBytes(hash as Hash), given));
      return found === undefined ? undefined : { who: found.name, role: found.role };
    },
  };
}

/** The least role that a request needs. */
export function roleOf({ role, method }: Pick<OperationDefinition, "role" | "method">): Role {
  return role ?? (method === "GET" ? "viewer" : "operator");
}

/** @throws NOT_ALLOWED */
export function requireRole({ who, role }: TokenBearer, needed: Role): void {
  if (roles.indexOf(role) < roles.indexOf(needed))
    throw new StemmaError(
      "NOT_ALLOWED",
      `The token ${who} has the role ${role}, and this needs the role ${needed}. Use a token of that ` +
        `role (\`stemma token add\`), or work on the server's own machine with --home.`,
      { role, needed },
    );
}

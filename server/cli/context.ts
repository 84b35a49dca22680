/**
 * The context that every command shares: global options, and the operations of a running server or of the
 * home opened in this process.
 */
import { existsSync, readFileSync, statSync } from "node:fs";
import { resolve } from "node:path";
import { setTimeout } from "node:timers/promises";
import type { Command } from "commander";
import { currentUser } from "../../shared/adapters/current-user.js";
import { userFolder } from "../../shared/adapters/user-folder.js";
import { homePathOf } from "../storage/repository/home-path.js";
import { exitStatus, isStemmaError, StemmaError } from "../../shared/errors.js";
import { requireRegular } from "../../shared/files/not-regular.js";
import type { ServerOperations } from "../interface/api/server-operations.js";
import type { ServerAddress } from "../interface/http/request.js";
import { wholeNumber } from "./whole-number.js";
import { contextNamed, contextsPath, readContexts, type NamedServer } from "./contexts.js";
import { Output, outputForms, type OutputForm } from "../../shared/cli/output.js";

export interface GlobalOptions {
  /** Asked only where it is used: a command for a server needs none. @throws USAGE where none is named or known */
  readonly home: string;
  /** URL of a running server; absent: the home on this machine. */
  readonly server: string | undefined;
  /** The token for the server. */
  readonly token: string | undefined;
  /** PEM of the authority of an https URL; absent: the system's. */
  readonly authority: () => string | undefined;
  readonly fleet: string;
  /** True if the command line itself names the fleet. */
  readonly isFleetNamed: boolean;
  /** True if nobody named the fleet. */
  readonly isDefaultFleet: boolean;
  readonly output: OutputForm;
  readonly verbose: boolean;
  /** The time to wait for a home that another process of this machine has. */
  readonly waitSeconds: number;
}

/** Makes the program with the names of all commands, of which the one that the words name is loaded. */
export type BuildProgram = (words: readonly string[]) => Promise<Command>;

const defaultWaitSeconds = 60;

/** Options that every command takes, at any position on the command line. */
export function addGlobalOptions(command: Command): Command {
  command
    .option("--home <dir>", "Stemma's own folder (or STEMMA_HOME; default ~/.stemma)")
    .option(
      "--server <url>",
      "talk to this running server instead of a home on this machine (token in STEMMA_TOKEN, authority of its certificate in the file STEMMA_CA)",
    )
    .option("--context <name>", "a server that `stemma context add` remembers (or STEMMA_CONTEXT)")
    .option("--fleet <name>", "the fleet that owns devices and models (or STEMMA_FLEET; default local)")
    .option("-o, --output <form>", `form of the answer: ${outputForms.join(", ")}`, "table");
  // The policy of a rollout has an option of this name.
  if (!command.options.some(({ long }) => long === "--wait"))
    command.option(
      "--wait <seconds>",
      `how long to wait for another process that has the home, where something is written (default ${defaultWaitSeconds})`,
    );
  return command.option("--verbose", "more details on stderr; stack traces of errors", false);
}

export function globalOptionsOf(command: Command): GlobalOptions {
  const options = command.optsWithGlobals<{
    home?: string;
    server?: string;
    context?: string;
    fleet?: string;
    output?: string;
    verbose?: boolean;
    wait?: string | boolean;
  }>();
  const form = options.output ?? "table";
  if (!(outputForms as readonly string[]).includes(form))
    throw new StemmaError("USAGE", `-o ${form} is not an output form. Use one of ${outputForms.join(", ")}.`);
  const named = contextOf(options);
  const fleet = options.fleet ?? process.env["STEMMA_FLEET"] ?? named?.fleet;
  return {
    get home() {
      return resolve(homePathOf(options.home, process.env, userFolder()));
    },
    server: named?.server ?? options.server ?? process.env["STEMMA_SERVER"],
    token: named?.token ?? process.env["STEMMA_TOKEN"],
    authority: () => named?.authority ?? readAuthority(process.env["STEMMA_CA"]),
    fleet: fleet ?? "local",
    isFleetNamed: options.fleet !== undefined,
    isDefaultFleet: fleet === undefined,
    output: form as OutputForm,
    verbose: options.verbose ?? false,
    waitSeconds: typeof options.wait === "string" ? wholeNumber("--wait", options.wait) : defaultWaitSeconds,
  };
}

/** PEM. @throws FILE_MISSING */
export function readAuthority(file: string | undefined): string | undefined {
  if (file === undefined || file === "") return undefined;
  let text: string;
  try {
    requireRegular(statSync(file), file);
    text = readFileSync(file, "utf8");
  } catch (cause) {
    if (isStemmaError(cause)) throw cause;
    throw new StemmaError(
      "FILE_MISSING",
      `The certificate authority ${file} cannot be read: ${(cause as Error).message}. Name another file.`,
      { cause, path: file },
    );
  }
  if (text.includes("-----BEGIN CERTIFICATE-----")) return text;
  throw new StemmaError(
    "USAGE",
    `${file} does not contain a certificate in PEM. The one of a server is authority.pem in its home.`,
    { path: file },
  );
}

/**
 * The remembered server that a command uses: the one that it names; else, where it names neither a server nor a home,
 * the current one.
 * @throws USAGE, NOT_FOUND, CONFIG_INVALID
 */
function contextOf({
  context,
  server,
  home,
}: {
  readonly context?: string;
  readonly server?: string;
  readonly home?: string;
}): NamedServer | undefined {
  if (context !== undefined && (server !== undefined || home !== undefined))
    throw new StemmaError("USAGE", "Name either a context, a server or a home.");
  const { STEMMA_CONTEXT, STEMMA_SERVER, STEMMA_HOME } = process.env;
  const isNamed = server !== undefined || home !== undefined;
  if (isNamed || (context === undefined && (STEMMA_SERVER ?? STEMMA_HOME ?? "") !== "")) return undefined;
  const name = context ?? STEMMA_CONTEXT;
  const path = contextsPath();
  // Most users have none, and need no more code for that.
  if (name === undefined && (path === undefined || !existsSync(path))) return undefined;
  const known = readContexts(path);
  const wanted = name ?? known.current;
  return wanted === undefined ? undefined : contextNamed(known, wanted);
}

export interface CommandContext {
  readonly options: GlobalOptions;
  readonly output: Output;
  readonly operations: () => Promise<ServerOperations>;
  readonly signal: AbortSignal;
}

/** Runs a command's body with its context, then closes what it opened. */
export async function withContext(
  command: Command,
  body: (context: CommandContext) => Promise<void>,
): Promise<void> {
  const options = globalOptionsOf(command);
  const output = new Output(options.output);
  const { signal, release } = interruptSignal();
  let opened: Promise<ServerOperations> | undefined;
  try {
    await body({
      options,
      output,
      operations: () => (opened ??= openNaming(options, output, signal)),
      signal,
    });
  } finally {
    release();
    const operations = await opened?.catch(() => undefined);
    if (operations !== undefined) {
      await noteDamage(operations, options.fleet, output);
      await operations.close();
    }
  }
}

const maxNamedVersions = 5;

/**
 * Notes on stderr what the fleet's store cannot read, so that no command is silent about what is missing in its
 * answer. Only what is known without reading the disk.
 */
async function noteDamage(operations: ServerOperations, fleet: string, output: Output): Promise<void> {
  // A server that is not reachable any more, or an older one, has no answer; the command's own result stands.
  const damage = await operations.knownDamage({ fleet }).catch(() => undefined);
  if (damage === undefined) return;
  const packs = new Set(damage.packs.map(({ pack }) => pack)).size;
  if (packs > 0)
    output.info(
      `stemma: note: ${packs} damaged ${packs === 1 ? "pack" : "packs"} in the fleet ${fleet}; \`stemma storage check\` shows what is affected. ${damage.packs[0]?.message}`,
    );
  const { versions } = damage;
  if (versions.length === 0) return;
  const named = versions.slice(0, maxNamedVersions).map(({ name, version }) => `${name}:${version}`);
  const more = versions.length > named.length ? `, and ${versions.length - named.length} more` : "";
  output.info(
    `stemma: note: ${versions.length} ${versions.length === 1 ? "version is" : "versions are"} in the journal of ${fleet} and cannot be read from its store: ${named.join(", ")}${more}. \`stemma storage check\` shows why.`,
  );
}

/**
 * One Ctrl-C can arrive several times within moments: from the terminal, and from npm and the launcher, which
 * forward it. A signal later than this is a second Ctrl-C.
 */
const sameInterruptMs = 1000;

/**
 * A signal that aborts with INTERRUPTED on SIGINT, SIGTERM or SIGHUP. A second Ctrl-C ends the process without waiting
 * for what it still closes.
 */
function interruptSignal(): { readonly signal: AbortSignal; readonly release: () => void } {
  const abort = new AbortController();
  let interruptedAtMs: number | undefined;
  const interrupt = (name: InterruptSignal): void => {
    const nowMs = performance.now();
    interruptedAtMs ??= nowMs;
    if (name !== "SIGHUP" && nowMs - interruptedAtMs > sameInterruptMs) process.exit(exitStatus.interrupted);
    abort.abort(new StemmaError("INTERRUPTED", interruptedText[name], { signal: name }));
  };
  for (const name of signals) process.on(name, interrupt);
  return {
    signal: abort.signal,
    release: () => {
      for (const name of signals) process.off(name, interrupt);
    },
  };
}
const interruptedText = {
  SIGINT: "Interrupted.",
  SIGTERM: "Interrupted by SIGTERM.",
  SIGHUP: "Interrupted by SIGHUP: its terminal was closed, or a program sent that signal.",
} as const;
type InterruptSignal = keyof typeof interruptedText;
const signals = Object.keys(interruptedText) as readonly InterruptSignal[];

/**
 * Ends a program that runs until it is stopped. SIGINT and SIGTERM end it well. A SIGHUP, which nobody may have meant
 * so, is said, with a status that a service starts it again for.
 * @throws INTERRUPTED
 */
export function throwIfHungUp({ reason }: AbortSignal): void {
  if (isStemmaError(reason) && reason.details["signal"] === "SIGHUP") throw reason;
}

/** Milliseconds between two looks at a home that is busy or whose server starts. */
const serverPauseMs = 200;

async function openNaming(
  options: GlobalOptions,
  output: Output,
  signal: AbortSignal,
): Promise<ServerOperations> {
  const operations = await openOperations(options, output, signal);
  if (!options.isDefaultFleet) return operations;
  const { namingDefaultFleet } = await import("./default-fleet.js");
  return namingDefaultFleet(operations, options.fleet, (line) => {
    output.info(line);
  });
}

/** Connects to the server that is named or that holds the home; without one, opens the home itself. */
async function openOperations(
  options: GlobalOptions,
  output: Output,
  signal: AbortSignal,
): Promise<ServerOperations> {
  if (options.server !== undefined)
    return connectTo({ url: options.server, token: options.token, authority: options.authority() });
  const wait: HomeWait = { signal, pausesLeft: Math.ceil((options.waitSeconds * 1000) / serverPauseMs) };
  const running = await connectToLocal(options.home, wait);
  if (running !== undefined) return running;
  const { openReadingOperations } = await import("../operations/reading-operations.js");
  return openReadingOperations({
    home: options.home,
    openToWrite: () => openToWrite(options.home, wait),
    onBeside: (holder) => {
      output.info(`stemma: note: ${holder} has this home; this reads what it has written`);
    },
  });
}

/** The time for which a command waits for a home, counted in pauses. */
interface HomeWait {
  readonly signal: AbortSignal;
  pausesLeft: number;
  isSaid?: boolean;
}

async function pause(wait: HomeWait): Promise<void> {
  wait.pausesLeft--;
  await setTimeout(serverPauseMs, undefined, { signal: wait.signal }).catch(() => undefined);
  wait.signal.throwIfAborted();
}

/** The operations of the server that holds the home; waits for one that is starting. */
async function connectToLocal(home: string, wait: HomeWait): Promise<ServerOperations | undefined> {
  const { awaitLocalServer } = await import("../interface/http/local-server.js");
  const { whatIsOpened } = await import("../interface/http/http-errors.js");
  const running = await awaitLocalServer(home, {
    onWait: ({ pid, opening }) => {
      process.stderr.write(
        `stemma: waiting for the server of this home (process ${pid}), which is starting\n`,
      );
      if (opening !== undefined) process.stderr.write(`stemma: ${whatIsOpened(opening)}\n`);
    },
    pause: () => pause(wait),
    attempts: wait.pausesLeft,
  });
  return running && connectTo({ socketPath: running.socketPath });
}

/** Opens the home with its lock. Waits while another process of this machine has it, which may be a server by then. */
async function openToWrite(home: string, wait: HomeWait): Promise<ServerOperations> {
  const { openLocalOperations } = await import("../operations/local-operations.js");
  for (;;)
    try {
      return await openLocalOperations({ home });
    } catch (error) {
      // Another command works on the home, such as an import; or a server ends, or has just begun to start.
      const isBusy = isStemmaError(error, "HOME_LOCKED") && error.details["verdict"] === "alive";
      if (!isBusy || wait.pausesLeft <= 0) throw error;
      if (wait.isSaid !== true) {
        wait.isSaid = true;
        const holder = error.details["holder"] as { readonly pid: number; readonly command: string } | null;
        const who = holder === null ? "another process" : `process ${holder.pid} (${holder.command})`;
        process.stderr.write(`stemma: waiting for ${who}, which has this home\n`);
      }
      await pause(wait);
      const running = await connectToLocal(home, wait);
      if (running !== undefined) return running;
    }
}

/**
 * A connection to the server that is named, or that holds the home now. Undefined where the home has none: this opens
 * no home, and waits for nothing.
 */
export async function connectIfRunning(
  options: Pick<GlobalOptions, "home" | "server" | "token">,
): Promise<ServerOperations | undefined> {
  if (options.server !== undefined) return connectTo({ url: options.server, token: options.token });
  const { findLocalServer } = await import("../interface/http/local-server.js");
  const running = await findLocalServer(options.home);
  return running === undefined ? undefined : connectTo({ socketPath: running.socketPath });
}

async function connectTo(address: ServerAddress): Promise<ServerOperations> {
  const { connectOperations } = await import("../interface/http/client.js");
  return connectOperations({ ...address, user: currentUser() });
}

/**
 * The checks of `stemma doctor`, with one function for each question. It returns what it found and, where that is not
 * good, what to do. Only reads, except that it writes a test file in the home's folder and removes it.
 */
import { open, readFile, rename, rm, stat, statfs } from "node:fs/promises";
import { availableParallelism, freemem, totalmem } from "node:os";
import { dirname, join } from "node:path";
import { programDateMs } from "../../../shared/adapters/program-version.js";
import { messageOf, messageWithCode } from "../../../shared/error-text.js";
import { isStemmaError } from "../../../shared/errors.js";
import { nodeFiles } from "../../../shared/files/node-files.js";
import { formatBytes, formatDuration } from "../../../shared/cli/output.js";
import { counted } from "../../../shared/printable.js";
import type { ServerOperations } from "../../interface/api/server-operations.js";
import { findLocalServer } from "../../interface/http/local-server.js";
import { examineServer } from "./examine-server.js";
import { examineTiers } from "./examine-tiers.js";
import { examineTraining } from "./examine-training.js";
import type { Finding, Subject } from "./finding.js";

/** Every finding, in the order of the questions. */
export async function examine(subject: Subject): Promise<Finding[]> {
  const questions = [
    examineNode,
    examineMachine,
    examineDisk,
    examineFsync,
    examineClock,
    examineServer,
    examineHome,
    examineTiers,
    examineTraining,
  ] as const;
  const findings: Finding[] = [];
  for (const question of questions) findings.push(...(await question(subject)));
  return findings;
}

function examineNode(): Finding[] {
  const [major = 0, minor = 0] = process.versions.node.split(".").map(Number);
  const good = major > 20 || (major === 20 && minor >= 19);
  return [
    {
      what: "node",
      state: good ? "good" : "wrong",
      found: `${process.version} on ${process.platform} ${process.arch}`,
      advice: good ? undefined : "Install Node 20.19 or newer.",
    },
  ];
}

function examineMachine(): Finding[] {
  const low = freemem() < 1.5e9;
  return [
    {
      what: "cores and memory",
      state: low ? "warning" : "good",
      found: `${availableParallelism()} cores, ${formatBytes(freemem())} of ${formatBytes(totalmem())} free`,
      advice: low ? "A training takes up to 1 GB; end other programs first." : undefined,
    },
  ];
}

/** The nearest existing folder at or above a path. A home that does not exist yet will be on its disk. */
async function existingFolder(path: string): Promise<string> {
  return (await stat(path).catch(() => undefined))?.isDirectory() === true || path === dirname(path)
    ? path
    : existingFolder(dirname(path));
}

async function examineDisk({ home }: Subject): Promise<Finding[]> {
  const folder = await existingFolder(home);
  const { bavail, bsize } = await statfs(folder);
  const free = bavail * bsize;
  const state = free < 2e8 ? "wrong" : free < 5e9 ? "warning" : "good";
  return [
    {
      what: "disk",
      state,
      found: `${formatBytes(free)} free at ${folder}`,
      advice: state === "good" ? undefined : "Free space there, or choose another home with --home.",
    },
  ];
}

/** Writes, syncs, renames and syncs the folder, as every save does. */
async function examineFsync({ home }: Subject): Promise<Finding[]> {
  const folder = await existingFolder(home);
  const path = join(folder, `.stemma-doctor-${process.pid}`);
  const startedMs = performance.now();
  try {
    const file = await open(path, "w");
    try {
      await file.write(Buffer.alloc(4096, 7));
      await file.sync();
    } finally {
      await file.close();
    }
    await rename(path, `${path}.renamed`);
    const handle = await open(folder, "r");
    try {
      await handle.sync();
    } finally {
      await handle.close();
    }
    const isComplete = (await readFile(`${path}.renamed`)).length === 4096;
    return [
      {
        what: "durable writes",
        state: isComplete ? "good" : "wrong",
        found: isComplete
          ? `write, fsync, rename and folder fsync work (${formatDuration(performance.now() - startedMs)})`
          : "the bytes read back differ from those written",
        advice: isComplete ? undefined : "Do not keep models on this file system.",
      },
    ];
  } catch (error) {
    return [
      {
        what: "durable writes",
        state: "wrong",
        found: `failed at ${folder}: ${messageOf(error)}`,
        advice: "Check the folder's permissions, or choose another home with --home.",
      },
    ];
  } finally {
    await rm(path, { force: true });
    await rm(`${path}.renamed`, { force: true });
  }
}

function examineClock(): Finding[] {
  const built = programDateMs();
  const wrong = Date.now() < built - 86_400_000;
  return [
    {
      what: "clock",
      state: wrong ? "wrong" : "good",
      found: new Date().toISOString(),
      advice: wrong
        ? "The clock is behind the time this program was built; set it (times of saves and activations are recorded)."
        : undefined,
    },
  ];
}

/** Authorities of the fleet's owner: whether they or their revocation lists have ended, or end soon. */
async function examineAuthorities(
  operations: Pick<ServerOperations, "authorities">,
  fleet: string,
): Promise<Finding[]> {
  const authorities = await operations.authorities({ fleet });
  if (authorities.length === 0) return [];
  const warnings = authorities.flatMap((each) => each.warnings);
  return [
    {
      what: "authorities",
      state: warnings.length > 0 ? "warning" : "good",
      found: `fleet ${fleet}: ${warnings.join("; ") || authorities.map(({ authority }) => authority).join(", ")}`,
      advice: warnings.length > 0 ? "`stemma authority list` shows them; docs/own-authority.md." : undefined,
    },
  ];
}

async function examineHome({ home }: Subject): Promise<Finding[]> {
  try {
    const { hasHome } = await import("../../storage/repository/home.js");
    if (!(await hasHome(nodeFiles(), home)))
      return [
        {
          what: "home",
          state: "good",
          found: `none in ${home} yet; a server, an enrolment or an import begins it`,
        },
      ];
    const running = await findLocalServer(home);
    const { connectOperations } = await import("../../interface/http/client.js");
    const { openReadingOperations } = await import("../../operations/reading-operations.js");
    const { openLocalOperations } = await import("../../operations/local-operations.js");
    const operations = running
      ? connectOperations({ socketPath: running.socketPath })
      : await openReadingOperations({
          home,
          openToWrite: () => openLocalOperations({ home }),
          onBeside: () => undefined,
        });
    try {
      const fleets = await operations.fleets();
      const counts =
        fleets
          .map(({ fleet, versions }) => `fleet ${fleet} has ${counted(versions, "version")}`)
          .join(", ") || "no fleet yet";
      const authorities = await Promise.all(fleets.map(({ fleet }) => examineAuthorities(operations, fleet)));
      return [
        ...authorities.flat(),
        {
          what: "home",
          state: "good",
          found: `${home}: format and journal are readable, ${counts}`,
          advice: undefined,
        },
      ];
    } finally {
      await operations.close();
    }
  } catch (error) {
    const text = messageWithCode(error);
    if (isStemmaError(error, "TIMED_OUT") || isStemmaError(error, "HOME_LOCKED"))
      return [{ what: "home", state: "warning", found: text, advice: "It is busy: examine it again later." }];
    return [
      {
        what: "home",
        state: "wrong",
        found: text,
        advice:
          "Nothing was changed. Run `stemma storage check` to see what is damaged, and restore it from a backup.",
      },
    ];
  }
}

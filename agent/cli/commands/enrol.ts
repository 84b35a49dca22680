/** `stemma agent enroll` and `renew`: this device's certificate, over HTTPS or by files carried both ways. */
import { dirname, join, resolve } from "node:path";
import type { Command } from "commander";
import { nodeClock, nodeRandom } from "../../../shared/adapters/node-ports.js";
import { asTyped } from "../../../shared/adapters/typed-command.js";
import { openLog } from "../../../shared/adapters/log.js";
import { Output } from "../../../shared/cli/output.js";
import { StemmaError } from "../../../shared/errors.js";
import { writeDurably } from "../../../shared/files/durable-write.js";
import { describeClaim } from "../../../shared/files/home-locked.js";
import { lockHome } from "../../../shared/files/home-lock.js";
import { makeFolderDurably } from "../../../shared/files/make-folder.js";
import { regularFiles } from "../../../shared/files/regular-files.js";
import type { Files } from "../../../shared/ports.js";
import type { Enrolment } from "../../../shared/trust/enrolment.js";
import type { DeviceKey } from "../../../shared/trust/keys.js";
import type { DeviceTime } from "../../identity/device-time.js";
import type { OwnerCertificate } from "../../identity/owner-certificate.js";
import { describeWrongClock } from "../../session/clock-error.js";
import { addTakeOver, commonOptionsOf } from "../common-options.js";

interface FileChoices {
  readonly request?: string;
  readonly response?: string;
  readonly enrolment?: string;
  readonly config?: string;
  readonly takeOver: boolean;
}
interface EnrolChoices extends FileChoices {
  readonly name?: string;
}

/** The channel by which a request reaches the server, and its answer this device. */
interface Exchange {
  request(): Promise<object>;
  send(request: object): Promise<unknown>;
  take(answer: unknown): Promise<Enrolment>;
}

export function addEnrol(program: Command): void {
  const withFiles = (command: Command): Command =>
    addTakeOver(command)
      .option(
        "--request <file>",
        "only write the request to this file, for `stemma device sign FILE` at the server",
      )
      .option("--response <file>", "take the server's answer to that request from this file")
      .option("--enrolment <file>", "the enrolment file (default <home>/enrolment.json)")
      .option(
        "--config <file>",
        "settings, where they name a program with this device's key (default <home>/agent.json)",
      );
  withFiles(
    program
      .command("enroll")
      .argument("<invitation>", "the file that `stemma device enroll` or `device batch create` wrote")
      .option("--name <name>", "the device's name, with the invitation of a batch (this machine's name)")
      .description("make this device's keys, which never leave it, and get its certificate from the server"),
  ).action(async (invitation: string, choices: EnrolChoices, command: Command) =>
    withHome(command, choices, async ({ files, path, deviceKey, ownerCertificate }) => {
      const { invitedExchange } = await import("../../identity/exchanges.js");
      const parts = { files, random: nodeRandom(), path, deviceKey, ownerCertificate };
      return run(files, choices, await invitedExchange(parts, resolve(invitation), choices.name));
    }),
  );
  withFiles(
    program
      .command("renew")
      .description("get a new certificate for a new key; a running agent does so itself, in time"),
  ).action(async (choices: FileChoices, command: Command) => {
    // Checked before anything is made: where no device is enrolled, nothing is left.
    const { loadEnrolment } = await import("../../../shared/trust/enrolment.js");
    await loadEnrolment(regularFiles(), pathOf(commonOptionsOf(command).home, choices));
    return withHome(command, choices, async ({ files, home, path, deviceKey, ownerCertificate }) => {
      const { renewalExchange } = await import("../../identity/exchanges.js");
      const log = openLog({ form: "plain", level: "warn" });
      const { openDeviceTime } = await import("../../releases/trusted-file.js");
      const clock = nodeClock();
      const openTime = (enrolment: Enrolment): Promise<DeviceTime> =>
        openDeviceTime({ files, home, enrolment, clock, log });
      const parts = { files, path, clock, log, ownerCertificate, openTime };
      return run(files, choices, await renewalExchange(parts, deviceKey));
    });
  });
}

function pathOf(home: string, { enrolment }: { readonly enrolment?: string | undefined }): string {
  return resolve(enrolment ?? join(home, "enrolment.json"));
}

/** Runs the enrolment; undefined: only the request was written. */
async function run(
  files: Files,
  { request: requestFile, response }: FileChoices,
  exchange: Exchange,
): Promise<Enrolment | undefined> {
  if (requestFile !== undefined && response !== undefined)
    throw new StemmaError("USAGE", "Write the request first (--request), then take its answer (--response).");
  if (response !== undefined) {
    const { parseJson } = await import("../../../shared/trust/keys.js");
    return exchange.take(parseJson(await files.read(resolve(response))));
  }
  const request = await exchange.request();
  if (requestFile === undefined) return exchange.take(await exchange.send(request));
  await writeDurably(files, resolve(requestFile), Buffer.from(`${JSON.stringify(request, null, 2)}\n`));
  return undefined;
}

interface OpenHome {
  readonly files: Files;
  readonly home: string;
  /** The path of the enrolment file. */
  readonly path: string;
  /** The key of the program that agent.json names. */
  readonly deviceKey: DeviceKey | undefined;
  /** The certificate of the owner's authority that agent.json names. */
  readonly ownerCertificate: OwnerCertificate | undefined;
}

/** Reads this device's keys from agent.json; members are undefined where it says nothing. @throws CONFIG_INVALID */
async function keysIn(
  files: Files,
  home: string,
  given?: string,
): Promise<Pick<OpenHome, "deviceKey" | "ownerCertificate">> {
  const nothing = { deviceKey: undefined, ownerCertificate: undefined };
  const configFile = resolve(given ?? join(home, "agent.json"));
  if (given === undefined && (await files.stat(configFile)) === undefined) return nothing;
  const { loadConfig } = await import("../../settings/config.js");
  const { deviceKey: settings, certificate } = await loadConfig(files, home, configFile);
  const { OwnerCertificate } = await import("../../identity/owner-certificate.js");
  const log = openLog({ form: "plain", level: "warn" });
  const ownerCertificate = certificate && new OwnerCertificate({ files, settings: certificate, log });
  if (settings === undefined) return { ...nothing, ownerCertificate };
  const { ownerOfSettings } = await import("../../../shared/programs/trusted-command.js");
  const { openProgramKey } = await import("../../identity/program-key.js");
  const owner = await ownerOfSettings(configFile);
  const { signal } = new AbortController();
  const parts = { settings, home, files, clock: nodeClock(), configFile, owner, signal };
  return { deviceKey: await openProgramKey(parts), ownerCertificate };
}

/** Holds the home's lock, so that a running agent does not renew at the same time. */
async function withHome(
  command: Command,
  { enrolment, request, response, config, takeOver }: FileChoices,
  work: (opened: OpenHome) => Promise<Enrolment | undefined>,
): Promise<void> {
  const { home, output } = commonOptionsOf(command);
  const files = regularFiles();
  await makeFolderDurably(files, home);
  const path = pathOf(home, { enrolment });
  await makeFolderDurably(files, dirname(path));
  const lock = await lockHome(home, { takeOver });
  for (const claim of lock.takenOver)
    openLog({ form: "plain", level: "warn" }).warn("home-taken-over", {
      text: `took ${home} over from ${describeClaim(claim)}`,
    });
  try {
    const keys = await keysIn(files, home, config);
    const enrolled = await work({ files, home, path, ...keys });
    if (enrolled === undefined) {
      const file = resolve(request ?? "");
      new Output(output).print({
        data: { request: file },
        names: [file],
        text: `wrote the request ${file}; at the server: stemma device sign ${file}`,
      });
      return;
    }
    const { device, generation, fleet } = enrolled;
    const { certificateEnd } = await import("../../identity/credentials.js");
    const notAfterMs = certificateEnd(enrolled) ?? (await keys.ownerCertificate?.present())?.notAfterMs ?? 0;
    const out = new Output(output);
    // An answer in a file may be days old.
    if (response === undefined) sayWrongClock(out, enrolled);
    const start =
      asTyped("stemma agent run ") + (enrolment === undefined ? `--home ${home}` : `--enrolment ${path}`);
    out.print({
      data: { fleet, device, generation, file: path, notAfterMs },
      names: [device],
      text: enrolledText(enrolled, { path, notAfterMs, start }),
    });
  } finally {
    await lock.release();
  }
}

/** Warns a person whose device's clock is not that of the server, which has just answered. */
function sayWrongClock(out: Output, { identity, ownerCertificate }: Enrolment): void {
  const serverMs = (identity ?? ownerCertificate)?.issuedAtMs;
  const nowMs = nodeClock().now();
  const wrong = serverMs === undefined ? undefined : describeWrongClock(nowMs - serverMs, nowMs);
  if (wrong !== undefined) out.info(`warning: ${wrong}.`);
}

function enrolledText(
  { device, deviceSeed, ownerCertificate }: Enrolment,
  { path, notAfterMs, start }: { readonly path: string; readonly notAfterMs: number; readonly start: string },
): string {
  const until = `valid until ${new Date(notAfterMs).toISOString()}`;
  if (ownerCertificate !== undefined)
    return `${device} is enrolled with its certificate of ${ownerCertificate.authority}, ${until}, which that authority renews; its enrolment is in ${path} (readable by you alone). Start it with: ${start}`;
  return `${device} has its certificate, ${until}; ${deviceSeed === undefined ? "the key of its connection is" : "its keys are"} in ${path} (readable by you alone). Start it with: ${start}`;
}

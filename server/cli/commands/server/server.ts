/** `stemma server`: the server in the foreground until a signal ends it. */
import { Option, type Command } from "commander";
import { StemmaError } from "../../../../shared/errors.js";
import { logForms, logLevels, type LogForm, type LogLevel } from "../../../../shared/adapters/log-forms.js";
import type { ServerOptions } from "../../../operations/configuration/config.js";
import type { ServerSettings } from "../../../operations/configuration/config-file.js";
import type { ReadyServer } from "../../../run-server.js";
import { appendValue } from "../../../../shared/cli/command-line.js";
import { runOnWithoutReaders } from "../../../../shared/cli/standard-streams.js";
import { throwIfHungUp, withContext, type CommandContext } from "../../context.js";

/** Options of the command line; undefined where server.json or a default applies. */
interface ServerChoices {
  readonly config?: string;
  readonly printConfigSchema: boolean;
  readonly host?: string;
  readonly mqttPort?: number;
  readonly httpPort?: number;
  readonly publicUrl: readonly string[];
  readonly tls?: "own" | "none";
  /** True if the option was given; else absent. */
  readonly deviceTokens?: true;
  readonly tlsCert?: string;
  readonly tlsKey?: string;
  readonly log?: LogForm;
  readonly logLevel?: LogLevel;
  readonly acceptClock: boolean;
  /** Commander sets true where --no-retention is absent. */
  readonly retention: boolean;
  readonly takeOver: boolean;
}

export function define(command: Command): void {
  command
    .option("--config <file>", "settings of the server (default server.json in the home)")
    .option("--print-config-schema", "print the JSON Schema of server.json and exit", false)
    .option("--host <address>", "address to listen on (default 127.0.0.1)")
    .option("--mqtt-port <port>", "port of the embedded broker (default 1883); 0 picks a free one", portOf)
    .option("--http-port <port>", "port of the HTTP interface (default 8083); 0 picks a free one", portOf)
    .option(
      "--public-url <url>",
      "address at which devices reach this server, for enrolment files: mqtt://, mqtts:// (repeatable, tried in order), http:// or https://",
      appendValue,
      [],
    )
    .addOption(
      new Option(
        "--tls <how>",
        "own (default): MQTT and HTTP over TLS with certificates of the server's own authority, which gives devices theirs; none: plain ports, and devices with tokens",
      ).choices(["own", "none"]),
    )
    .option("--device-tokens", "let devices have tokens instead of certificates, also with TLS of its own")
    .option("--tls-cert <file>", "PEM certificate: devices then connect with mqtts")
    .option("--tls-key <file>", "PEM key of the certificate")
    .addOption(new Option("--log <form>", "form of the log (default plain)").choices(logForms))
    .addOption(
      new Option(
        "--log-level <level>",
        "least important events that are logged (default info; debug with --verbose)",
      ).choices(logLevels),
    )
    .option(
      "--accept-clock",
      "take this machine's clock as it is, also more than 30 days past the latest time that this server knows",
      false,
    )
    .option(
      "--no-retention",
      "do not apply retention rules (otherwise an hour after the start and once a day: stemma storage retention)",
    )
    .option(
      "--take-over",
      "take the home over from a process that has not renewed its claim for a minute and that you know has ended",
      false,
    )
    .addHelpText(
      "after",
      "\nOptions override server.json, which overrides the defaults;\ndocs/reference/server-json.md explains each key.",
    )
    .action((choices: ServerChoices, command: Command) =>
      withContext(command, (context) => run(choices, context)),
    );
}

async function run(choices: ServerChoices, { output, options, signal }: CommandContext): Promise<void> {
  const { readServerFile, serverFileJsonSchema } =
    await import("../../../operations/configuration/config-file.js");
  if (choices.printConfigSchema) {
    const schema = serverFileJsonSchema();
    output.print({ data: schema, names: [], text: JSON.stringify(schema, null, 2), isVerbatim: true });
    return;
  }
  const settings = await readServerFile(options.home, choices.config);
  const { runServer } = await import("../../../run-server.js");
  const log = {
    form: choices.log ?? settings.log.form ?? "plain",
    level: choices.logLevel ?? (options.verbose ? "debug" : (settings.log.level ?? "info")),
  };
  const serverOptions = mergeOptions(choices, settings);
  runOnWithoutReaders();
  await runServer({ ...serverOptions, home: options.home, fleets: [options.fleet], log }, signal, (ready) => {
    output.print({ data: ready, names: [ready.mqttUrl], text: readyText(ready) });
  });
  throwIfHungUp(signal);
}

function readyText({ mqttUrl, httpUrl, home, authorityFile }: ReadyServer): string {
  const authority = authorityFile === undefined ? "" : `, certificate authority ${authorityFile}`;
  return `stemma server: ${mqttUrl} for devices, ${httpUrl} for people, home ${home}${authority}`;
}

/** Joins the options: those of the command line override those of server.json. */
function mergeOptions(choices: ServerChoices, { options }: ServerSettings): Omit<ServerOptions, "home"> {
  const { tls, tlsCert, tlsKey } = choices;
  if ((tlsCert === undefined) !== (tlsKey === undefined))
    throw new StemmaError("USAGE", "--tls-cert and --tls-key belong together. Give both, or neither.");
  if (tls !== undefined && tlsCert !== undefined)
    throw new StemmaError(
      "USAGE",
      "--tls own makes the certificate itself, and --tls none uses none. Leave out --tls-cert and --tls-key.",
    );
  return {
    ...options,
    host: choices.host ?? options.host,
    mqttPort: choices.mqttPort ?? options.mqttPort,
    httpPort: choices.httpPort ?? options.httpPort,
    tls:
      tlsCert === undefined || tlsKey === undefined
        ? (tls ?? options.tls)
        : { certFile: tlsCert, keyFile: tlsKey },
    deviceTokens: choices.deviceTokens ?? options.deviceTokens,
    enrolment: publicAddresses(choices.publicUrl, options.enrolment),
    acceptClock: choices.acceptClock,
    retention: choices.retention ? options.retention : false,
    takeOver: choices.takeOver,
  };
}

/** The addresses for enrolment files; those of the command line override those of server.json, kind by kind. */
function publicAddresses(
  urls: readonly string[],
  configured: ServerOptions["enrolment"],
): ServerOptions["enrolment"] {
  const ofKind = (kind: RegExp): readonly string[] =>
    urls.filter((url) => kind.test(url) && URL.canParse(url));
  const mqtt = ofKind(/^mqtts?:\/\/./);
  const http = ofKind(/^https?:\/\/./);
  const invalid = urls.find((url) => !mqtt.includes(url) && !http.includes(url));
  if (invalid !== undefined)
    throw new StemmaError(
      "USAGE",
      `"${invalid}" is not an address of a server. Write --public-url mqtt://HOST:PORT (or mqtts, http, https).`,
    );
  if (mqtt.length > 8 || http.length > 1)
    throw new StemmaError("USAGE", "Give at most 8 MQTT addresses and one HTTP address as --public-url.");
  return {
    mqttUrls: mqtt.length > 0 ? mqtt : configured?.mqttUrls,
    httpUrl: http[0] ?? configured?.httpUrl,
  };
}

function portOf(text: string): number {
  const port = Number(text);
  if (!Number.isInteger(port) || port < 0 || port > 65_535)
    throw new StemmaError("USAGE", `"${text}" is not a port. Use 0 to 65535.`);
  return port;
}

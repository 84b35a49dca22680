/** `stemma server`: the server in the foreground until a signal ends it. */
import type { Command } from "commander";
import { StemmaError } from "../../../shared/errors.js";
import { withContext } from "../context.js";

interface ServerChoices {
  readonly host: string;
  readonly mqttPort: number;
  readonly httpPort: number;
  readonly tlsCert?: string;
  readonly tlsKey?: string;
  readonly log: string;
  readonly retention: boolean;
}

export function addServerCommand(program: Command): void {
  program
    .command("server")
    .description("run the server with its embedded MQTT broker and HTTP interface, until Ctrl-C")
    .option("--host <address>", "address to listen on", "127.0.0.1")
    .option(
      "--mqtt-port <port>",
      "0 picks a free one; a taken one is replaced by a free one, and said",
      portOf,
      1883,
    )
    .option("--http-port <port>", "0 picks a free one", portOf, 8083)
    .option("--tls-cert <file>", "PEM certificate: devices then connect with mqtts")
    .option("--tls-key <file>", "PEM key of the certificate")
    .option("--log <form>", "plain or json", "plain")
    .option(
      "--no-retention",
      "do not apply retention rules (else an hour after the start and once a day: stemma storage retention)",
    )
    .action(async (choices: ServerChoices, command: Command) =>
      withContext(command, async ({ output, options, signal }) => {
        if ((choices.tlsCert === undefined) !== (choices.tlsKey === undefined))
          throw new StemmaError("USAGE", "--tls-cert and --tls-key belong together. Give both, or none.");
        if (choices.log !== "plain" && choices.log !== "json")
          throw new StemmaError("USAGE", `--log ${choices.log} is no form of log. Use plain or json.`);
        const { runServer } = await import("../../run-server.js");
        await runServer(
          {
            home: options.home,
            fleets: [options.fleet],
            host: choices.host,
            mqttPort: choices.mqttPort,
            httpPort: choices.httpPort,
            log: choices.log,
            retention: choices.retention,
            tls:
              choices.tlsCert === undefined || choices.tlsKey === undefined
                ? undefined
                : { certFile: choices.tlsCert, keyFile: choices.tlsKey },
          },
          signal,
          (ready) => {
            output.print({
              data: ready,
              names: [ready.mqttUrl],
              text: `stemma server: ${ready.mqttUrl} for devices, ${ready.httpUrl} for people, home ${ready.home}`,
            });
          },
        );
      }),
    );
}

function portOf(text: string): number {
  const port = Number(text);
  if (!Number.isInteger(port) || port < 0 || port > 65_535)
    throw new StemmaError("USAGE", `"${text}" is no port. Use 0 to 65535.`);
  return port;
}

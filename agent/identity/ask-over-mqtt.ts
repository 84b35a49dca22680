/** Asks the server one question over MQTT without a session: the CONNECT asks, one message answers. */
import type { Duplex } from "node:stream";
import { MqttClient, type IClientOptions } from "mqtt";
import { keepNoMqttNumbers } from "../../shared/wire/mqtt-numbers.js";

const answerMs = 60_000;

export interface MqttAnswer {
  readonly payload?: Uint8Array;
  /** The reason for the missing answer, where it is known. */
  readonly error?: Error | undefined;
}

/** @param timeoutMs after which a server that accepts the connection and stays silent has given no answer */
export async function askOverMqtt(
  socket: Duplex,
  question: Pick<IClientOptions, "clientId" | "username" | "password">,
  timeoutMs = answerMs,
): Promise<MqttAnswer> {
  keepNoMqttNumbers();
  const client = new MqttClient(() => socket, {
    protocolVersion: 4,
    clean: true,
    reconnectPeriod: 0,
    connectTimeout: timeoutMs,
    resubscribe: false,
    ...question,
  });
  let error: Error | undefined;
  client.on("error", (refused) => {
    error = refused;
  });
  let timer: NodeJS.Timeout | undefined;
  try {
    return await new Promise<MqttAnswer>((resolve) => {
      timer = setTimeout(() => {
        resolve({ error: new Error(`no answer within ${timeoutMs / 1000} s`) });
      }, timeoutMs);
      client.on("message", (_, payload) => {
        resolve({ payload });
      });
      client.once("close", () => {
        resolve({ error });
      });
    });
  } finally {
    clearTimeout(timer);
    client.end(true);
  }
}

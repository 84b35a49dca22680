/** Asks the server one question over MQTT without a session: the CONNECT asks, one message answers. */
import type { Duplex } from "node:stream";
import { MqttClient, type IClientOptions } from "mqtt";
import { keepNoMqttNumbers } from "../../shared/wire/mqtt-numbers.js";

const answerMs = 60_000;

/** `error`: why there is no answer, where the connection says so. */
export interface MqttAnswer {
  readonly payload?: Uint8Array;
  readonly error?: Error | undefined;
}

export async function askOverMqtt(
  socket: Duplex,
  question: Pick<IClientOptions, "clientId" | "username" | "password">,
): Promise<MqttAnswer> {
  keepNoMqttNumbers();
  const client = new MqttClient(() => socket, {
    protocolVersion: 4,
    clean: true,
    reconnectPeriod: 0,
    connectTimeout: answerMs,
    resubscribe: false,
    ...question,
  });
  let error: Error | undefined;
  client.on("error", (refused) => {
    error = refused;
  });
  try {
    return await new Promise<MqttAnswer>((resolve) => {
      client.on("message", (_, payload) => {
        resolve({ payload });
      });
      client.once("close", () => {
        resolve({ error });
      });
    });
  } finally {
    client.end(true);
  }
}

/** One question over MQTT: a server that accepts the connection and stays silent keeps nobody waiting. */
import assert from "node:assert/strict";
import { once } from "node:events";
import { connect, createServer } from "node:net";
import { test } from "node:test";
import { askOverMqtt } from "../../../../agent/identity/ask-over-mqtt.js";

test("a server that accepts the connection and says nothing more has given no answer", async (t) => {
  const connected = Buffer.from([0x20, 0x02, 0x00, 0x00]);
  const server = createServer((socket) => {
    socket.on("error", () => undefined);
    socket.once("data", () => socket.write(connected));
  });
  t.after(() => server.close());
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as { port: number };
  const socket = connect(port, "127.0.0.1");
  const { payload, error } = await askOverMqtt(socket, { clientId: "cars:van:time", username: "van" }, 50);
  assert.equal(payload, undefined);
  assert.match(error?.message ?? "", /no answer within/);
});

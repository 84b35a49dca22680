/**
 * Saves the memory that mqtt-packet, with which aedes and mqtt.js write, takes for numbers. At the first
 * packet it makes a buffer of each number from 0 to 65,535 and keeps them, 7 MB. Made when they are written,
 * they take no time to speak of.
 */
import mqttPacket from "mqtt-packet";

/** Call before a process writes its first MQTT packet. */
export function keepNoMqttNumbers(): void {
  mqttPacket.writeToStream.cacheNumbers = false;
}

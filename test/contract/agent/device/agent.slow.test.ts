// The agent keeps the contract of a device.
import { describe } from "node:test";
import { deviceContract } from "./device-contract.js";
import { nodeDevice } from "./node-device.js";

describe("the agent", () => {
  deviceContract(nodeDevice);
});

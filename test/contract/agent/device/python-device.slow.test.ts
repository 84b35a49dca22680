// The second client of the protocol keeps the contract of a device, too. STEMMA_TEST_PYTHON names a Python where the
// wheel is installed; without it the sources run by python3.
import { describe } from "node:test";
import { deviceContract } from "./device-contract.js";
import { missingForPython, pythonDevice } from "./python-device.js";

describe("stemma.device", { skip: await missingForPython() }, () => {
  deviceContract(pythonDevice);
});

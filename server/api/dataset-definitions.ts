/** Operations on named data. */
import * as z from "zod";
import { dataset, datasetBody, datasetCheck } from "./evaluation-schemas.js";
import { fleetParams, fleetPath, shortText } from "./fields.js";
import { call } from "./operation.js";

export const datasetOperations = {
  datasets: call({
    summary: "Registered data of a fleet",
    method: "GET",
    path: `${fleetPath}/datasets`,
    params: fleetParams,
    output: z.array(dataset),
  }),
  addDataset: call({
    summary: "Register data: it is read once, and its hash is kept",
    method: "POST",
    path: `${fleetPath}/datasets`,
    params: fleetParams,
    body: datasetBody,
    output: dataset,
    isLong: true,
  }),
  checkDataset: call({
    summary: "Read registered data again and compare its hash",
    method: "POST",
    path: `${fleetPath}/datasets/:name/check`,
    params: { ...fleetParams, name: shortText },
    output: datasetCheck,
    isLong: true,
  }),
};

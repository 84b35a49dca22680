/** Operations on named data. */
import * as z from "zod";
import {
  addedDataset,
  dataset,
  datasetBody,
  datasetCheck,
  datasetDetails,
  fetchedData,
  pushedData,
  removedData,
} from "./dataset-schemas.js";
import { fleetParams, fleetPath, shortText } from "../fields.js";
import { call, stream } from "../operation.js";

/** The largest request to register data: one with a story. */
const maxAddBytes = 8 * 1024 * 1024;

const datasetPath = `${fleetPath}/datasets/:name`;
const datasetParams = { ...fleetParams, name: shortText.describe("Name of registered data") };

export const datasetOperations = {
  datasets: call({
    summary: "Registered data of a fleet",
    method: "GET",
    path: `${fleetPath}/datasets`,
    right: "read",
    params: fleetParams,
    output: z.array(dataset),
  }),
  addDataset: call({
    summary: "Register data: it is read once, and its hash is kept",
    method: "POST",
    path: `${fleetPath}/datasets`,
    right: "change-data",
    params: fleetParams,
    body: datasetBody,
    output: addedDataset,
    isLong: true,
    maxBodyBytes: maxAddBytes,
  }),
  checkDataset: call({
    summary: "Read registered data again and compare its hash",
    method: "POST",
    path: `${datasetPath}/check`,
    right: "change-data",
    params: datasetParams,
    output: datasetCheck,
    isLong: true,
  }),
  showDataset: call({
    summary:
      "Registered data in detail: what its location has now, what is stored, and which versions used it",
    method: "GET",
    path: datasetPath,
    // Reads all samples.
    right: "read-data",
    params: datasetParams,
    output: datasetDetails,
    isLong: true,
  }),
  pushDataset: call({
    summary: "Store the samples of registered data as chunks, each once",
    method: "POST",
    path: `${datasetPath}/push`,
    right: "change-data",
    params: datasetParams,
    output: pushedData,
    isLong: true,
    stopsWithClient: true,
  }),
  fetchDataset: stream({
    summary: "The samples of stored data, in their canonical form",
    method: "GET",
    path: `${datasetPath}/samples`,
    // Samples tell more of people than models do.
    right: "read-data",
    params: datasetParams,
    responseType: "application/octet-stream",
    output: fetchedData,
    details:
      "The body is the canonical bytes, which the reader `canonical` reads. The header `stemma-data` has the report below as base64url JSON; `etag` is their SHA-256. The last bytes are sent only when all are verified: a body as long as `content-length` is right, a shorter one must not be used.",
  }),
  removeDataset: call({
    summary: "Forget registered data; files stay, and stored samples as long as a kept version needs them",
    method: "POST",
    path: `${datasetPath}/remove`,
    right: "delete",
    params: datasetParams,
    body: {
      evenIfUsed: z.boolean().optional().describe("Although kept versions were trained with it"),
    },
    output: removedData,
  }),
};

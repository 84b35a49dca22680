/** The NeDB catalog keeps the contract of every catalog. */
import { openNedbCatalog } from "../../../../server/catalog/nedb-catalog.js";
import { catalogContract } from "./catalog-contract.js";

catalogContract("NeDB", openNedbCatalog);

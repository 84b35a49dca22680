/** The NeDB catalog fulfils the catalog contract. */
import { openNedbCatalog } from "../../../../../server/storage/catalog/nedb-catalog.js";
import { catalogContract } from "./catalog-contract.js";

catalogContract("NeDB", openNedbCatalog);

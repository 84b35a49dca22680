"""What follows from the description of the HTTP API; `npm run http-api` writes the other files of this folder."""

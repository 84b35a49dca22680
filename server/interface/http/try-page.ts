/**
 * A page on which a person tries the operations of the HTTP interface: Swagger UI over /openapi.json. The page and its
 * files need no token and contain nothing of this server; the description and all requests need the one that the person
 * enters, which stays in the page's memory.
 */
import { createHash } from "node:crypto";
import { readFile } from "node:fs/promises";
import type { FastifyInstance } from "fastify";

export const tryPagePath = "/api";
const path = { script: `${tryPagePath}/page.js`, style: `${tryPagePath}/page.css` } as const;
/** Files of the package swagger-ui-dist, which are large: they are read when a browser asks for them. */
const packaged = {
  [`${tryPagePath}/swagger-ui.css`]: { file: "swagger-ui.css", type: "text/css; charset=utf-8" },
  [`${tryPagePath}/swagger-ui-bundle.js`]: {
    file: "swagger-ui-bundle.js",
    type: "text/javascript; charset=utf-8",
  },
} as const;

/** Paths of the page, none of which needs a token. */
export const tryPagePaths: readonly string[] = [
  tryPagePath,
  path.script,
  path.style,
  ...Object.keys(packaged),
];

const page = `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Stemma server: HTTP interface</title>
<link rel="stylesheet" href="${tryPagePath}/swagger-ui.css">
<link rel="stylesheet" href="${path.style}">
</head>
<body>
<header>
<h1>Stemma server: HTTP interface</h1>
<p>Every operation with what it takes and answers, to try on this server. <strong>Execute</strong> really does it, as
the owner of the token.</p>
<form id="enter">
<label>Token <input id="token" type="password" autocomplete="off" spellcheck="false" required></label>
<button>Show the operations</button>
<output id="message" role="status"></output>
</form>
<p>The first token is in the file <code>http-token</code> of the server's home; <code>stemma token add</code> makes
others, for a role each. It stays in this page until you close it.</p>
</header>
<div id="operations"></div>
<script src="${tryPagePath}/swagger-ui-bundle.js"></script>
<script src="${path.script}"></script>
</body>
</html>
`;

const style = `body { margin: 0; font: 1rem/1.5 system-ui, sans-serif; background: #fafafa; color: #222; }
header { max-width: 1460px; margin: 0 auto; padding: 1.5rem 20px 0; box-sizing: border-box; }
h1 { font-size: 1.5rem; margin: 0; }
p { max-width: 46rem; margin: 0.5rem 0; }
input { font: inherit; width: 22rem; max-width: 100%; }
button { font: inherit; }
#message { color: #b3261e; margin-left: 0.5rem; }
/* The token is entered above, and the title is there too. */
.swagger-ui .scheme-container, .swagger-ui .info, .swagger-ui .authorization__btn { display: none; }
`;

const script = `"use strict";
const form = document.getElementById("enter");
const message = document.getElementById("message");
form.addEventListener("submit", async (event) => {
  event.preventDefault();
  const authorization = "Bearer " + document.getElementById("token").value.trim();
  message.textContent = "";
  try {
    const answer = await fetch("/openapi.json", { headers: { authorization }, cache: "no-store" });
    if (!answer.ok) {
      const body = await answer.json().catch(() => ({}));
      message.textContent =
        answer.status === 401
          ? "The server does not know this token."
          : (body.message ?? "The server answered with status " + answer.status + ".");
      return;
    }
    SwaggerUIBundle({
      spec: await answer.json(),
      domNode: document.getElementById("operations"),
      docExpansion: "none",
      deepLinking: false,
      validatorUrl: null,
      // The token is that of the form.
      requestInterceptor: (request) => {
        if (new URL(request.url, location.href).origin === location.origin)
          request.headers.authorization = authorization;
        return request;
      },
    });
  } catch (error) {
    message.textContent = "The server does not answer: " + error.message;
  }
});
`;

/** Headers by which no other site may show the page, and it may reach this server alone. */
const security = {
  "content-security-policy":
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; " +
    "connect-src 'self'; form-action 'none'; base-uri 'none'; frame-ancestors 'none'",
  "x-content-type-options": "nosniff",
  "referrer-policy": "no-referrer",
};

export function addTryPage(app: FastifyInstance): void {
  const texts = {
    [tryPagePath]: { text: page, type: "text/html; charset=utf-8" },
    [path.style]: { text: style, type: "text/css; charset=utf-8" },
    [path.script]: { text: script, type: "text/javascript; charset=utf-8" },
  };
  for (const [url, { text, type }] of Object.entries(texts))
    app.get(url, (_request, reply) => reply.headers(security).type(type).send(text));
  for (const [url, { file, type }] of Object.entries(packaged))
    app.get(url, async (request, reply) => {
      const bytes = await readFile(new URL(`../../../vendor/${file}`, import.meta.url));
      const tag = `"${createHash("sha256").update(bytes).digest("base64url")}"`;
      void reply.headers({ ...security, etag: tag, "cache-control": "no-cache" });
      if (request.headers["if-none-match"] === tag) return reply.status(304).send();
      return reply.type(type).send(bytes);
    });
}

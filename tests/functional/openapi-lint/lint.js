// node lint.js FILE: lints an OpenAPI document, prints every problem, and ends with 1 when there is one.
"use strict";
const { createConfig, formatProblems, getTotals, lint } = require("@redocly/openapi-core");

async function main(file) {
  const config = await createConfig({
    extends: ["recommended-strict"],
    // Over the unix socket the host name means nothing, so it is localhost.
    rules: { "no-server-example.com": "off" },
  });
  const problems = await lint({ ref: file, config });
  formatProblems(problems, { format: "stylish", totals: getTotals(problems), version: "1", cwd: process.cwd() });
  return problems.length === 0 ? 0 : 1;
}

main(process.argv[2]).then((code) => {
  process.exitCode = code;
});

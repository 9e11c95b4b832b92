// Checks the workflows of GitHub Actions with GitHub's own parser, after it has found the mistakes in broken copies:
//
//   node deploy/check-workflows.mjs DIRECTORY_WITH_NODE_MODULES WORKFLOW…
//
// The parser knows the keys, the events, the permissions and the expressions. In addition, an action must be named by the
// hash of a commit, and permissions must be given.
import { readFileSync } from "node:fs";
import { register } from "node:module";
import { resolve } from "node:path";

const [packages, ...workflows] = process.argv.slice(2);

// The parser imports its schema in a way that only bundlers understand.
register("data:text/javascript," + encodeURIComponent(`export const load = (url, context, next) =>
  next(url, url.endsWith(".json") ? { ...context, importAttributes: { type: "json" } } : context);`));
const { parseWorkflow, convertWorkflowTemplate, NoOperationTraceWriter } =
  await import(resolve(packages, "node_modules/@actions/workflow-parser/dist/index.js"));

async function complaintsOf(name, content) {
  const { context, value } = parseWorkflow({ name, content }, new NoOperationTraceWriter());
  if (value) await convertWorkflowTemplate(context, value);
  const complaints = context.errors.getErrors().map(({ message }) => message);
  for (const [, action] of content.matchAll(/uses: *(\S+)/g)) {
    if (!/@[0-9a-f]{40}$/.test(action)) complaints.push(`${name}: ${action} is not the hash of a commit`);
  }
  if (!/^permissions:/m.test(content)) complaints.push(`${name}: no permissions`);
  return complaints;
}

const mistakes = [
  ["runs-on:", "runs_on:", "runs_on"],
  ["ubuntu-24.04", "${{ github.actor", "expression"],
  ["push:", "pushes:", "pushes"],
  ["steps:", "stages:", "stages"],
  [/permissions:[^]*?jobs:/, "jobs:", "permissions"],
  [/@[0-9a-f]{40}/, "@v4", "hash"],
];
let failures = 0;
for (const name of workflows) {
  const content = readFileSync(name, "utf8");
  for (const complaint of await complaintsOf(name, content)) {
    console.error(complaint);
    failures++;
  }
  for (const [text, replacement, word] of mistakes) {
    const broken = content.replace(text, replacement);
    const found = await complaintsOf(name, broken);
    if (broken === content || !found.some((complaint) => complaint.includes(word))) {
      console.error(`${name}: '${text}' -> '${replacement}' is not found: ${found.join("; ")}`);
      failures++;
    }
  }
}
if (failures) process.exit(1);
console.log(`${workflows.length} workflows, nothing to complain about`);

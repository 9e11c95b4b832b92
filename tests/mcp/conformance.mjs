// The official conformance suite against the agent: node conformance.mjs AGENT
//
// Runs the scenarios that need no tools, prompts or resources of the suite.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { startServer } from './server.mjs';

const agent = process.argv[2];
const here = (path) => new URL(path, import.meta.url).pathname;
const scenarios = [
  ['server-initialize', '2025-06-18'],
  ['server-initialize', '2025-11-25'],
  ['server-session-lifecycle', '2025-03-26'],
  ['server-session-lifecycle', '2025-11-25'],
  ['ping', '2025-11-25'],
  ['tools-list', '2025-06-18'],
  ['tools-list', '2025-11-25'],
  ['tools-list', '2026-07-28'],
  ['server-stateless', '2026-07-28'],
  ['caching', '2026-07-28'],
  ['sep-2164-resource-not-found', '2026-07-28'],
  ['dns-rebinding-protection', '2025-11-25'],
  ['dns-rebinding-protection', '2026-07-28'],
  ['http-header-validation', '2026-07-28'],
  ['server-sse-multiple-streams', '2025-11-25'],
  ['server-sse-multiple-streams', '2026-07-28'],
];

async function conform(url, [scenario, version]) {
  const program = spawn(process.execPath, [here('node_modules/@modelcontextprotocol/conformance/dist/index.js'), 'server', '--url', url,
    '--scenario', scenario, '--spec-version', version]);
  let text = '';
  program.stdout.on('data', (data) => (text += data));
  program.stderr.on('data', (data) => (text += data));
  const [code] = await once(program, 'close');
  return { code, text: text.replace(/\x1b\[\d*m/g, '') };
}

// These do not count as failures: they need a tool of the suite, or a capability that is not declared.
const byIntent = [
  /Error: Not testable: server does not list the diagnostic tool/g,
  /Error: (prompts|resources)\/\S+ returned JSON-RPC error -32601/g,
];

function count(text, pattern) {
  return text.match(pattern)?.length ?? 0;
}

function failures({ code, text }) {
  const found = count(text, /\bFAILURE\b/g);
  return code !== 0 && found === 0 ? 1 : found - byIntent.reduce((sum, pattern) => sum + count(text, pattern), 0);
}

let failed = 0;
const server = await startServer(agent, ['--mcp']);
for (const scenario of scenarios) {
  const outcome = await conform(server.url, scenario);
  const wrong = failures(outcome);
  const passed = count(outcome.text, /\bSUCCESS\b/g);
  console.log(`${wrong === 0 && passed > 0 ? 'ok   ' : 'FAIL '} conformance ${scenario.join(', ')}: ${passed} passed`);
  if (wrong > 0 || passed === 0) console.log(outcome.text);
  failed += wrong > 0 || passed === 0;
}
await server.stop();
process.exit(failed === 0 ? 0 : 1);

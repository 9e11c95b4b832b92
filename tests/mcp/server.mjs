// An agent that serves MCP over HTTP on a free port of this machine.
//
//   const server = await startServer('build/agent', ['--mcp'], { cwd: '/tmp' });
//   … server.url, server.headers …
//   await server.stop();
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createServer } from 'node:net';
import { createInterface } from 'node:readline';

async function freePort() {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address();
  server.close();
  await once(server, 'close');
  return port;
}

// With a key, its header is in `headers`.
export async function startServer(program, args, { cwd, key } = {}) {
  const address = `127.0.0.1:${await freePort()}`;
  const env = { ...process.env, ...(key ? { SANDBOX_HTTP_KEY: key } : {}) };
  const server = spawn(program, [...args, '--http', address], { cwd, env, stdio: ['ignore', 'inherit', 'pipe'] });
  const exit = once(server, 'exit');
  let isStarted = false;
  for await (const line of createInterface({ input: server.stderr })) {
    isStarted = line.includes('started: ');
    if (isStarted) break;
    console.error(line);
  }
  if (!isStarted) throw new Error(`the agent has ended: exit code ${(await exit)[0]}`);
  server.stderr.resume();
  return {
    url: `http://${address}/mcp`,
    headers: key ? { Authorization: `Bearer ${key}` } : {},
    async stop() {
      server.kill('SIGTERM');
      const [code] = await exit;
      if (code !== 143) throw new Error(`exit code ${code}`);
    },
  };
}
